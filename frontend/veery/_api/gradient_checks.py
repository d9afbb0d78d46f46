"""Checks of derivatives against numerical differences."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from veery._api.autodiff import jvp, vjp
from veery._core import dtypes, tree
from veery._core.avals import aval_of

Tolerance = float | Mapping[Any, float] | None

EPS = 1.0 / 2048
# Relative and absolute tolerances of values, and of derivatives.
_VALUES = {
    "bfloat16": 1e-2,
    "float16": 1e-3,
    "float32": 1e-6,
    "float64": 1e-15,
    "complex64": 1e-6,
    "complex128": 1e-15,
}
_DERIVATIVES = {
    "bfloat16": 1e-1,
    "float16": 1e-2,
    "float32": 2e-3,
    "float64": 1e-5,
    "complex64": 1e-3,
    "complex128": 1e-5,
}


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int,
    modes: str | Sequence[str] = ("fwd", "rev"),
    atol: Tolerance = None,
    rtol: Tolerance = None,
    eps: float | None = None,
) -> None:
    """Check the derivatives of a function against numerical differences along random directions.

    Args:
        f: the function.
        args: its arguments, pytrees of arrays.
        order: up to which order.
        modes: "fwd", "rev" or both; both are also nested.
        atol: absolute tolerance, or some by dtypes: `{np.float32: 1e-2}`; by default one for the dtype.
        rtol: relative tolerance, or some by dtypes.
        eps: step of the differences.

    Raises:
        AssertionError: a derivative is wrong.

    >>> import veery, veery.numpy as jnp
    >>> veery.test_util.check_grads(jnp.sin, (0.5,), order=2)
    """
    args = tuple(args)
    modes = (modes,) if isinstance(modes, str) else tuple(modes)
    check_forward = functools.partial(check_jvp, atol=atol, rtol=rtol, eps=eps)
    check_backward = functools.partial(check_vjp, atol=atol, rtol=rtol, eps=eps)
    rng = np.random.RandomState(0)

    def check(f: Callable[..., Any], args: tuple[Any, ...], order: int, path: str) -> None:
        if "fwd" in modes:
            label = f"{path}JVP of f" if path else "JVP of f"
            check_forward(f, functools.partial(jvp, f), args, err_msg=label)
            if order > 1:
                tangents = tree.tree_map(lambda x: _direction(rng, x), args)
                forward = lambda *primals: jvp(f, primals, tangents)[1]
                check(forward, args, order - 1, f"{label}, ")
        if "rev" in modes:
            label = f"{path}VJP of f" if path else "VJP of f"
            check_backward(f, functools.partial(vjp, f), args, err_msg=label)
            if order > 1:
                out = f(*args)
                cotangent = tree.tree_map(lambda x: _direction(rng, x), out)
                backward = lambda *primals: vjp(f, *primals)[1](cotangent)
                check(backward, args, order - 1, f"{label}, ")

    check(f, args, order, "")


def check_jvp(
    f: Callable[..., Any],
    f_jvp: Callable[..., Any],
    args: Sequence[Any],
    atol: Tolerance = None,
    rtol: Tolerance = None,
    eps: float | None = None,
    err_msg: str = "",
) -> None:
    """Check `f_jvp(primals, tangents) -> (output, tangent)` against differences of f along a random direction.

    Raises:
        AssertionError: it is wrong.
    """
    args = tuple(args)
    rng = np.random.RandomState(0)
    tangents = tree.tree_map(lambda x: _direction(rng, x), args)
    out, tangent = f_jvp(args, tangents)
    _assert_close(out, f(*args), atol, rtol, f"{err_msg} primal")
    _assert_close(tangent, _difference(f, args, tangents, eps or EPS), atol, rtol, f"{err_msg} tangent")


def check_vjp(
    f: Callable[..., Any],
    f_vjp: Callable[..., Any],
    args: Sequence[Any],
    atol: Tolerance = None,
    rtol: Tolerance = None,
    eps: float | None = None,
    err_msg: str = "",
) -> None:
    """Check `f_vjp(*primals) -> (output, vjp_fun)` against differences of f: <ct, J t> = <J' ct, t>.

    Raises:
        AssertionError: it is wrong.
    """
    args = tuple(args)
    rng = np.random.RandomState(0)
    out, pullback = f_vjp(*args)
    _assert_close(out, f(*args), atol, rtol, f"{err_msg} primal")
    tangents = tree.tree_map(lambda x: _direction(rng, x), args)
    expected = _difference(f, args, tangents, eps or EPS)
    cotangent = tree.tree_map(lambda x: _direction(rng, x), out)
    cotangents = pullback(cotangent)
    leaf = next(x for x in tree.tree_leaves(out) if _is_inexact(x))
    as_leaf = lambda value: np.asarray(value, np.asarray(leaf).real.dtype)
    _assert_close(
        as_leaf(_inner(cotangents, tangents)), as_leaf(_inner(cotangent, expected)), atol, rtol, f"{err_msg} cotangent"
    )


def check_close(xs: Any, ys: Any, atol: Tolerance = None, rtol: Tolerance = None, err_msg: str = "") -> None:
    """Check that arrays are close.

    Args:
        xs, ys: pytrees of them.
        atol, rtol: as of `check_grads`, but the usual ones are a few roundings of the less precise dtype.
        err_msg: what the error begins with.

    Raises:
        AssertionError: they are not.
    """
    _assert_close(xs, ys, atol, rtol, err_msg, _VALUES)


def _is_inexact(x: Any) -> bool:
    return dtypes.issubdtype(aval_of(x).dtype, np.inexact)


def _direction(rng: np.random.RandomState, x: Any) -> np.ndarray:
    aval: Any = aval_of(x)
    if not _is_inexact(x):
        return np.zeros(aval.shape, dtypes.float0)
    values = rng.standard_normal(aval.shape)
    if dtypes.issubdtype(aval.dtype, np.complexfloating):
        values = values + 1j * rng.standard_normal(aval.shape)
    return np.asarray(values).astype(aval.dtype)


def _wide(x: Any) -> np.ndarray:
    array = np.asarray(x)
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _difference(f: Callable[..., Any], args: tuple, tangents: tuple, eps: float) -> Any:
    def shifted(step: float) -> Any:
        move = lambda x, t: x if not _is_inexact(x) else np.asarray(_wide(x) + step * _wide(t)).astype(aval_of(x).dtype)
        return f(*tree.tree_map(move, args, tangents))

    def slope(high: Any, low: Any) -> np.ndarray:
        if not _is_inexact(high):
            return np.zeros(np.shape(high), dtypes.float0)
        return np.asarray((_wide(high) - _wide(low)) / eps)

    return tree.tree_map(slope, shifted(eps / 2), shifted(-eps / 2))


def _inner(a: Any, b: Any) -> float:
    pairs = zip(tree.tree_leaves(a), tree.tree_leaves(b), strict=True)
    return float(sum(np.sum(_wide(x) * _wide(y)).real for x, y in pairs if np.asarray(x).dtype != dtypes.float0))


def _assert_close(
    actual: Any,
    expected: Any,
    atol: Tolerance,
    rtol: Tolerance,
    message: str,
    usual: Mapping[str, float] = _DERIVATIVES,
) -> None:
    for x, y in zip(tree.tree_leaves(actual), tree.tree_leaves(expected), strict=True):
        both = [np.asarray(x).dtype, np.asarray(y).dtype]
        if both[0] != dtypes.float0:
            relative, absolute = (max(_tolerance(given, dtype, usual) for dtype in both) for given in (rtol, atol))
            np.testing.assert_allclose(_wide(x), _wide(y), rtol=relative, atol=absolute, err_msg=message)


def _tolerance(given: Tolerance, dtype: np.dtype, usual: Mapping[str, float]) -> float:
    default = usual.get(dtype.name, 0.0)
    if isinstance(given, Mapping):
        return {np.dtype(known): value for known, value in given.items()}.get(dtype, default)
    return default if given is None else given
