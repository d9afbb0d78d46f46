"""What the operands of special functions undergo first."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from veery import numpy as jnp
from veery._core import dtypes
from veery._core.avals import aval_of
from veery.numpy._arithmetic import as_array
from veery.numpy._elementwise import elementwise
from veery.numpy._promotion import Array, promote_args_inexact, to_dtype


def is_complex(x: Array) -> bool:
    """Whether an array has a complex dtype."""
    return dtypes.issubdtype(aval_of(x).dtype, np.complexfloating)  # type: ignore[attr-defined]


def real(
    fun: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    weak: bool | Literal["numbers"] = True,
    refusal: type[Exception] | None = ValueError,
) -> Callable[..., Any]:
    """Make a formula for arrays of float32 or float64 a function of array-likes.

    The operands get one float dtype and one rank. 16-bit floats are computed in 32 bits and rounded once at the end.

    Args:
        fun: takes arrays of one dtype, and returns an array or a tuple of them.
        name: for messages; the function's by default.
        weak: whether results of what is weakly typed alone, as Python's numbers are, are so, too; or only those that
            are numbers themselves: JAX's constants give arrays a type.
        refusal: the exception that JAX raises for complex operands; None if they are taken.

    Returns:
        A function of the same arguments, or a decorator if there is no formula yet.

    Raises:
        TypeError: (when called) an operand is no array.
    """
    if fun is None:
        return functools.partial(real, name=name, weak=weak, refusal=refusal)
    return elementwise(_real(fun, name or fun.__name__.lstrip("_"), weak, refusal))


def real_floats(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Like `real`, for functions of one array that refuse integers and bools by a TypeError."""
    formula = _real(fun, fun.__name__, weak=False, refusal=TypeError)

    @functools.wraps(fun)
    def call(x: Any) -> Any:
        dtype = aval_of(as_array(x)).dtype  # type: ignore[attr-defined]
        if not dtypes.issubdtype(dtype, np.floating):
            raise TypeError(f"x.dtype={dtype} is not supported, see docstring for supported types.")
        return formula(x)

    return elementwise(call)


def _real(fun: Callable[..., Any], name: str, weak: bool | str, refusal: type[Exception] | None) -> Callable[..., Any]:
    @functools.wraps(fun)
    def call(*args: Any) -> Any:
        xs = promote_args_inexact(name, *args)
        aval = aval_of(xs[0])
        dtype, is_weak = aval.dtype, aval.weak_type and bool(weak)  # type: ignore[attr-defined]
        if is_complex(xs[0]) and refusal is not None:
            raise refusal(f"{name} does not support complex-valued inputs.")
        wide = dtype if dtype.itemsize >= 4 else np.dtype(np.float32)
        out = fun(*(as_array(to_dtype(x, wide)) for x in xs))
        keeps_weak = lambda y: is_weak and not (weak == "numbers" and np.ndim(y))
        narrow: Callable[[Array], Array] = lambda y: to_dtype(y, dtype, keeps_weak(y))
        return tuple(map(narrow, out)) if isinstance(out, tuple) else narrow(out)

    return call


def of_each(fun: Callable[[Array], Array], *xs: Array) -> list[Array]:
    """fun of several arrays, computed by one piece of code."""
    return list(fun(jnp.stack(jnp.broadcast_arrays(*xs))))
