"""Operations without inner jaxprs, on values as the reference holds them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from veery._core.jaxpr import JaxprEqn
from veery._core.primitive import all_primitives
from veery._reference.formats import format_of, held, rounded

Leaf = Callable[..., list[np.ndarray]]


def leaf(name: str, eqn: JaxprEqn) -> Leaf:
    """The function of held operands that gives the held results of an equation, by the primitive of that name."""
    if name in _LEAVES:
        return lambda *xs: [_LEAVES[name](eqn, *xs)]
    primitive = eqn.primitive if eqn.primitive.name == name else _by_name(name)
    reference, params = primitive.reference, eqn.params
    if reference is None:
        return _compiled(eqn)
    return lambda *xs: list(reference(*xs, **params)) if primitive.multiple_results else [reference(*xs, **params)]


def _by_name(name: str) -> Any:
    return next(p for p in all_primitives if p.name == name)


def _compiled(eqn: JaxprEqn) -> Leaf:
    """An operation of the user's, or a module from elsewhere: it is run by itself."""
    primitive = eqn.primitive

    def run(*xs: np.ndarray) -> list[np.ndarray]:
        out = primitive.run(*(rounded(x, a.aval.dtype) for x, a in zip(xs, eqn.invars)), **eqn.params)
        outs = out if primitive.multiple_results else [out]
        return [held(x, v.aval.dtype) for x, v in zip(outs, eqn.outvars)]

    return run


def _in_own_dtype(eqn: JaxprEqn, *xs: np.ndarray) -> np.ndarray:
    """Operations on digits: operands in their dtypes, the result held again."""
    arrays = [rounded(x, a.aval.dtype) for x, a in zip(xs, eqn.invars)]
    return held(eqn.primitive.reference(*arrays, **eqn.params), eqn.outvars[0].aval.dtype)  # type: ignore[misc]


def _convert(eqn: JaxprEqn, x: np.ndarray) -> np.ndarray:
    new = eqn.outvars[0].aval.dtype
    if format_of(new) is None:
        return _in_own_dtype(eqn, x)
    if format_of(eqn.invars[0].aval.dtype) is None:
        return x.astype(np.complex128 if np.dtype(new).kind == "c" else np.float64)
    if np.dtype(new).kind == "c":
        return x.astype(np.complex128)
    return x.real.copy() if x.dtype.kind == "c" else x


def _product(eqn: JaxprEqn, *xs: np.ndarray) -> np.ndarray:
    """Products in wide floats, whatever element type is preferred."""
    params = eqn.params
    new = eqn.outvars[0].aval.dtype
    if format_of(new) is not None:
        params = params | {"preferred_element_type": None, "precision": None}
        wide = np.complex128 if np.dtype(new).kind == "c" else np.float64
        xs = tuple(x.astype(wide) if x.dtype.kind != "c" else x for x in xs)
    return eqn.primitive.reference(*xs, **params)  # type: ignore[misc]


def _iota(eqn: JaxprEqn) -> np.ndarray:
    return held(eqn.primitive.reference(**eqn.params), eqn.outvars[0].aval.dtype)  # type: ignore[misc]


_LEAVES: dict[str, Callable[..., np.ndarray]] = {
    "bitcast_convert_type": _in_own_dtype,
    "conv_general_dilated": _product,
    "convert_element_type": _convert,
    "dot_general": _product,
    "iota": _iota,
    "nextafter": _in_own_dtype,
    "reduce_precision": _in_own_dtype,
}
