"""Einstein summation: the order of contractions by opt_einsum, each of them one product of two arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import opt_einsum

from veery import lax
from veery._api.jit import jit
from veery._core import dtypes
from veery._core.dimensions import is_symbolic_dim
from veery.lax._placement import lays_out
from veery.numpy._matrices import diagonal
from veery.numpy._products import contract, sum_along
from veery.numpy._promotion import check_no_out, ensure_arraylikes, promote_factors, to_dtype
from veery.numpy._shaping import Array, ArrayLike, as_array

Step = tuple[tuple[int, ...], str]  # positions of the operands, and the contraction as text: "ij,jk->ik"


class _Pairwise(opt_einsum.paths.PathOptimizer):
    """The order in which the operands were given."""

    def __call__(self, inputs: Any, output: Any, size_dict: Any, memory_limit: Any = None) -> Any:
        count = len(inputs)
        # the result of a contraction is put behind the operands that remain
        return [(0,)] if count == 1 else [(0, 1)] + [(0, count - 2 - i) for i in range(count - 2)]


@lays_out
def einsum(
    subscripts: Any,
    /,
    *operands: Any,
    out: None = None,
    optimize: Any = "auto",
    precision: Any = None,
    preferred_element_type: Any = None,
    _dot_general: Callable[..., Any] = lax.dot_general,
    out_sharding: Any = None,
) -> Array:
    """Sums of products of arrays, written in Einstein's notation.

    Args:
        subscripts: the names of all dimensions: "ij,jk->ik". Or the first array, in the form
            `einsum(x, [0, 1], y, [1, 2], [0, 2])`.
        *operands: the arrays.
        out: must be None.
        optimize: how opt_einsum finds the order of contractions: "auto", "optimal", "greedy", True, False (as
            given), or a path.
        precision: accepted; products are computed at the operands' full precision.
        preferred_element_type: the dtype in which products are added, and of the result.
        _dot_general: what multiplies two arrays, with the arguments of `lax.dot_general`.
        out_sharding: how the result is divided over Explicit axes of a mesh.

    Raises:
        ValueError: the subscripts do not fit the arrays.

    >>> import veery.numpy as jnp
    >>> x = jnp.arange(6.0).reshape(2, 3)
    >>> jnp.einsum("ij,kj->ik", x, x).tolist()
    [[5.0, 14.0], [14.0, 50.0]]
    """
    check_no_out("einsum", out)
    text, arrays = _parse(subscripts, operands)
    steps = _steps(text, tuple(_sizes(x) for x in arrays), _hashable(optimize))
    if preferred_element_type is not None:
        preferred_element_type = dtypes.check_and_canonicalize_user_dtype(preferred_element_type, "einsum")
    product = None if _dot_general is lax.dot_general else _dot_general
    return _einsum(arrays, steps=steps, precision=precision, preferred=preferred_element_type, product=product)


def _parse(subscripts: Any, operands: Sequence[Any]) -> tuple[str, list[Any]]:
    """Subscripts without ellipses as text, and the arrays."""
    arrays = ensure_arraylikes("einsum", *(x for x in (subscripts, *operands) if not isinstance(x, (str, list, tuple))))
    shapes = [_Shaped(np.shape(x)) for x in arrays]
    remaining = iter(shapes)
    given = [x if isinstance(x, (str, list, tuple)) else next(remaining) for x in (subscripts, *operands)]
    inputs, output, _ = opt_einsum.parser.parse_einsum_input(given, shapes=False)
    return f"{inputs}->{output}", list(arrays)


class _Shaped:
    """The shape of an operand, which is all that parsing looks at."""

    def __init__(self, shape: tuple[int, ...]):
        self.shape = shape
        self.ndim = len(shape)


def _sizes(x: Any) -> tuple[int, ...]:
    """The shape of an operand for the choice of a path: a symbolic dimension counts as a batch."""
    return tuple(64 if is_symbolic_dim(size) else size for size in np.shape(x))


def _hashable(optimize: Any) -> Any:
    return (
        tuple(tuple(x) if isinstance(x, (list, tuple)) else x for x in optimize)
        if isinstance(optimize, (list, tuple))
        else optimize
    )


@functools.lru_cache(maxsize=1024)
def _steps(text: str, shapes: tuple[tuple[int, ...], ...], optimize: Any) -> tuple[Step, ...]:
    """The contractions in order: of which operands, and their subscripts."""
    method = (
        {True: "optimal", False: _Pairwise()}.get(optimize, optimize) if not isinstance(optimize, tuple) else optimize
    )
    if isinstance(method, tuple):
        method = [x for x in method if not isinstance(x, str)]
    _, info = opt_einsum.contract_path(text, *shapes, shapes=True, optimize=method)
    return tuple((tuple(positions), subscripts) for positions, _, subscripts, *_ in info.contraction_list)


@jit(static_argnames=("steps", "precision", "preferred", "product"), inline=True)
def _einsum(arrays: list[Array], *, steps: tuple[Step, ...], precision: Any, preferred: Any, product: Any) -> Array:
    pending = [as_array(x) for x in promote_factors(*arrays)]
    weak = preferred is None and all(x.weak_type for x in pending)
    dtype = pending[0].dtype if preferred is None else preferred
    for positions, subscripts in steps:
        inputs, output = subscripts.split("->")
        chosen = [pending[i] for i in positions]
        pending = [x for i, x in enumerate(pending) if i not in positions]
        pending.append(_step(chosen, inputs.split(","), output, precision, dtype, product))
    return to_dtype(pending[0], dtype, weak)


def _step(
    arrays: Sequence[Array], labels: Sequence[str], output: str, precision: Any, dtype: Any, product: Any
) -> Array:
    """One contraction: two by two, in case a path asks for more at once."""
    pairs = [_diagonals(x, text) for x, text in zip(arrays, labels)]
    if len(pairs) == 1:
        return _alone(*pairs[0], output)
    x, names = pairs[0]
    for i, (y, other) in enumerate(pairs[1:], 2):
        rest = [label for _, text in pairs[i:] for label in text] + list(output)
        kept = list(output) if i == len(pairs) else [s for s in dict.fromkeys([*names, *other]) if s in rest]
        x, names = contract(x, names, y, other, kept, precision, dtype, product), kept
    return x


def _diagonals(x: Array, labels: str) -> tuple[Array, list[str]]:
    """x with one dimension for each name: repeated names take the diagonal."""
    names = list(labels)
    for label in dict.fromkeys(names):
        while names.count(label) > 1:
            i = names.index(label)
            j = names.index(label, i + 1)
            x = diagonal(x, 0, i, j)
            names = [s for k, s in enumerate(names) if k not in (i, j)] + [label]
    return x, names


def _alone(x: Array, names: Sequence[str], output: str) -> Array:
    axes = tuple(i for i, label in enumerate(names) if label not in output)
    if axes:
        x = sum_along(x, axes)
    kept = [label for label in names if label in output]
    return lax.transpose(x, [kept.index(label) for label in output])


def einsum_path(subscripts: Any, /, *operands: Any, optimize: Any = "auto") -> tuple[list[Any], Any]:
    """The order in which `einsum` would contract its operands, and opt_einsum's account of its cost.

    >>> import veery.numpy as jnp
    >>> jnp.einsum_path("ij,jk,kl->il", jnp.ones((2, 3)), jnp.ones((3, 4)), jnp.ones((4, 5)))[0]
    [(0, 1), (0, 1)]
    """
    text, arrays = _parse(subscripts, operands)
    method = (
        {True: "optimal", False: _Pairwise()}.get(optimize, optimize)
        if not isinstance(optimize, (list, tuple))
        else optimize
    )
    path, info = opt_einsum.contract_path(text, *(np.shape(x) for x in arrays), shapes=True, optimize=method)
    return path, info


__all__ = ["ArrayLike", "einsum", "einsum_path"]
