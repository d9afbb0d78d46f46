"""Checks of a primitive's rules against definitions: numerical differences, dot products, loops over a batch.

To be used under `numpy_evaluation()` with 64-bit types enabled: operands are in float64 or complex128. Functions are
flat: they take arrays and return one array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery._core.ad import UndefinedPrimal, Zero, instantiate_zeros
from veery._core.avals import aval_of
from veery._transforms.batching import AxisData, batch
from veery._transforms.jvp import jvp
from veery._transforms.linearize import linearize
from veery._transforms.transpose import backward_pass

Function = Callable[..., Any]


def forward(fun: Function, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """The directional derivative of fun; None tangents are zero."""
    given = [Zero.from_primal_value(p) if t is None else t for p, t in zip(primals, tangents, strict=True)]
    _, (tangent,) = jvp(lambda *xs: [fun(*xs)], primals, given)
    return instantiate_zeros(tangent)


def backward(fun: Function, primals: Sequence[Any], wanted: Sequence[int], ct: Any) -> list[Any]:
    """The cotangents of the operands at positions `wanted`."""
    nonzeros = [i in wanted for i in range(len(primals))]
    linear = linearize(lambda *xs: [fun(*xs)], primals, nonzeros)
    if not linear.nonzeros_out[0]:
        return [np.zeros_like(primals[i]) for i in wanted]
    places = [UndefinedPrimal(aval_of(primals[i]).to_tangent_aval()) for i in wanted]
    return [instantiate_zeros(x) for x in backward_pass(linear.jaxpr.jaxpr, linear.jaxpr.consts, places, [ct])]


def random_like(x: Any, seed: int) -> np.ndarray:
    """A direction in the space of x: complex for complex x."""
    rng = np.random.default_rng(seed)
    direction = rng.uniform(0.5, 1.5, np.shape(x)) * rng.choice([-1.0, 1.0], np.shape(x))
    if np.asarray(x).dtype.kind == "c":
        direction = direction + 1j * rng.uniform(-1.0, 1.0, np.shape(x))
    return np.asarray(direction)


def difference(fun: Function, primals: Sequence[Any], tangents: Sequence[Any], step: float = 1e-6) -> np.ndarray:
    """The directional derivative by central differences."""
    shift = lambda h: [p if t is None else p + h * t for p, t in zip(primals, tangents, strict=True)]
    return (np.asarray(fun(*shift(step))) - np.asarray(fun(*shift(-step)))) / (2 * step)


def check_forward(fun: Function, primals: Sequence[Any], wanted: Sequence[int], rtol: float = 1e-6) -> None:
    """The jvp in each wanted operand alone, and in all of them, equals numerical differences."""
    for subset in [*([i] for i in wanted), list(wanted)]:
        tangents = [random_like(p, 7 + i) if i in subset else None for i, p in enumerate(primals)]
        expected = difference(fun, primals, tangents)
        actual = forward(fun, primals, tangents)
        assert np.asarray(actual).dtype == expected.dtype
        scale = np.max(np.abs(expected), initial=1.0)
        np.testing.assert_allclose(actual, expected, rtol=rtol, atol=rtol * scale, err_msg=f"operands {subset}")


def check_backward(fun: Function, primals: Sequence[Any], wanted: Sequence[int], rtol: float = 1e-9) -> None:
    """Reverse mode is the transpose of forward mode: Re <ct, J t> = Re <J' ct, t>."""
    out = np.asarray(fun(*primals))
    ct = random_like(out, 3).astype(out.dtype)
    for subset in [*([i] for i in wanted), list(wanted)]:
        directions = {i: random_like(primals[i], 11 + i) for i in subset}
        tangent = forward(fun, primals, [directions.get(i) for i in range(len(primals))])
        cotangents = backward(fun, primals, subset, ct)
        for i, cotangent in zip(subset, cotangents, strict=True):
            assert (np.shape(cotangent), np.asarray(cotangent).dtype) == (np.shape(primals[i]), primals[i].dtype)
        expected = np.sum(ct * np.asarray(tangent)).real
        actual = sum(np.sum(np.asarray(c) * directions[i]).real for i, c in zip(subset, cotangents, strict=True))
        scale = np.sum(np.abs(ct * np.asarray(tangent)))
        np.testing.assert_allclose(actual, expected, rtol=rtol, atol=rtol * scale, err_msg=f"operands {subset}")


def check_second_order(fun: Function, primals: Sequence[Any], wanted: Sequence[int], rtol: float = 1e-5) -> None:
    """The derivative of the jvp equals its numerical differences, forward over forward and reverse over forward."""
    for i in wanted:
        tangents = [random_like(p, 5) if j == i else None for j, p in enumerate(primals)]
        derivative = lambda *xs, tangents=tangents: forward(fun, xs, tangents)
        check_forward(derivative, primals, wanted, rtol)
        check_backward(derivative, primals, wanted)


def check_batching(fun: Function, primals: Sequence[Any], out_rtol: float = 1e-12) -> None:
    """Batches along each dimension, of each subset of the operands, equal a loop; those of nothing are empty."""
    size, count = 3, len(primals)
    axis = AxisData(None, size)
    for batched in range(1, 2**count):
        for place in ("first", "last", "mixed"):
            args, dims = [], []
            for i, x in enumerate(primals):
                if not batched >> i & 1:
                    args.append(x)
                    dims.append(None)
                    continue
                last = place == "last" or (place == "mixed" and i % 2 == 0)
                dims.append(np.ndim(x) if last else 0)
                args.append(np.stack([np.roll(np.ravel(x), k).reshape(np.shape(x)) for k in range(size)], dims[-1]))
            _compare_with_loop(fun, axis, args, dims, out_rtol)
            empty = [x if d is None else np.take(x, [], d) for x, d in zip(args, dims, strict=True)]
            (out,), (dim,) = batch(lambda *xs: [fun(*xs)], AxisData(None, 0), empty, dims)
            expected = np.asarray(fun(*primals))
            assert np.shape(out) == tuple(np.insert(expected.shape, dim, 0)) and np.asarray(out).dtype == expected.dtype


def _compare_with_loop(fun: Function, axis: AxisData, args: list, dims: list, rtol: float) -> None:
    (out,), (dim,) = batch(lambda *xs: [fun(*xs)], axis, args, dims)
    assert dim is not None
    for k in range(axis.size):
        single = [x if d is None else np.take(x, k, d) for x, d in zip(args, dims, strict=True)]
        expected = np.asarray(fun(*single))
        actual = np.take(np.asarray(out), k, dim)
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype), f"batch dimensions {dims}"
        np.testing.assert_allclose(actual, expected, rtol=rtol, err_msg=f"batch dimensions {dims}")
