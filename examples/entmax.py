"""α-entmax (Peters, Niculae and Martins: Sparse Sequence-to-Sequence Models, 2019): softmax that can be exactly zero.

For scores z the probabilities are p = [(α - 1) z - τ]₊^(1 / (α - 1)), with the threshold τ that makes them sum to one;
α = 1 is softmax, α = 2 sparsemax. The threshold is found by bisection. Differentiating through its steps would be slow
and inexact; the derivative has a closed form instead: with s = p^(2 - α) where p > 0, and 0 elsewhere,

    dp = s (dz - <s, dz> / <s, 1>).

Run it with `python examples/entmax.py`.
"""

from __future__ import annotations

import functools

import numpy as np

import veery
import veery.numpy as jnp

STEPS = 40  # each halves the interval of the threshold


@functools.partial(veery.custom_vjp, nondiff_argnums=(1,))
def entmax(scores: veery.Array, alpha: float = 1.5) -> veery.Array:
    """The α-entmax of a vector.

    Args:
        scores: shape (n,).
        alpha: greater than 1; the greater, the more probabilities are zero.

    Returns:
        Probabilities, shape (n,).

    >>> entmax(jnp.array([2.0, 0.0, -1.0]), 2.0).tolist()
    [1.0, 0.0, 0.0]
    """
    z = scores * (alpha - 1)
    exponent = 1 / (alpha - 1)
    probabilities = lambda threshold: jnp.maximum(z - threshold, 0) ** exponent

    def halve(_: veery.Array, interval: tuple[veery.Array, veery.Array]) -> tuple[veery.Array, veery.Array]:
        low, high = interval
        middle = (low + high) / 2
        too_low = jnp.sum(probabilities(middle)) >= 1
        return jnp.where(too_low, middle, low), jnp.where(too_low, high, middle)

    top = jnp.max(z)
    low, _ = veery.lax.fori_loop(0, STEPS, halve, (top - 1, top - scores.size ** (1 - alpha)))
    p = probabilities(low)
    return p / jnp.sum(p)


def entmax_forward(scores: veery.Array, alpha: float) -> tuple[veery.Array, veery.Array]:
    p = entmax(scores, alpha)
    return p, p


def entmax_backward(alpha: float, p: veery.Array, cotangent: veery.Array) -> tuple[veery.Array]:
    support = p > 0
    s = jnp.where(support, jnp.where(support, p, 1) ** (2 - alpha), 0)
    return (s * (cotangent - jnp.sum(s * cotangent) / jnp.sum(s)),)


entmax.defvjp(entmax_forward, entmax_backward)


def loss(scores: veery.Array, target: veery.Array, alpha: float) -> veery.Array:
    """The squared distance of the probabilities from a distribution."""
    return jnp.sum((entmax(scores, alpha) - target) ** 2)


def numerical_gradient(scores: np.ndarray, target: np.ndarray, alpha: float, step: float) -> np.ndarray:
    """Central differences of `loss`, all in one batch."""
    shifts = step * np.eye(scores.size, dtype=scores.dtype)
    losses = veery.jit(veery.vmap(lambda z: loss(z, target, alpha)))(np.concatenate([scores + shifts, scores - shifts]))
    above, below = np.split(np.asarray(losses), 2)
    return (above - below) / (2 * step)


def main() -> None:
    scores = np.array([1.0, 0.6, 0.2, -0.4, -2.5], np.float32)
    target = np.array([0.2, 0.5, 0.1, 0.1, 0.1], np.float32)
    for alpha in (1.2, 1.5, 2.0):
        gradient = veery.jit(veery.grad(loss), static_argnums=2)(scores, target, alpha)
        difference = np.max(np.abs(np.asarray(gradient) - numerical_gradient(scores, target, alpha, 1e-2)))
        p = np.asarray(veery.jit(entmax, static_argnums=1)(scores, alpha))
        print(f"alpha {alpha}: {np.round(p, 3)}, {np.sum(p == 0)} zeros; gradient right to {difference:.0e}")
        assert difference < 2e-3
    batch = np.stack([scores, -scores, 3 * scores])
    rows = veery.jit(veery.vmap(lambda z: entmax(z, 1.5)))(batch)
    print("a batch sums to", np.sum(np.asarray(rows), axis=1))


if __name__ == "__main__":
    main()
