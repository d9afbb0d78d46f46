"""Looking at functions without running them: jaxprs and output types."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from veery._api.arguments import as_tuple, wraps
from veery._api.jit import JitFunction, JitOptions, jit
from veery._api.shape_structs import out_struct
from veery._core import source
from veery._core.avals import aval_of
from veery._core.trace import extend_axis_env
from veery._transforms.staging import with_consts


def typeof(x: Any) -> Any:
    """The aval of an array, tracer or scalar.

    >>> import veery
    >>> veery.typeof(1.0)
    ShapedArray(float32[], weak_type=True)
    """
    return aval_of(x)


def eval_shape(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The types of a function's outputs, without computing them.

    Args:
        fun: the function.
        *args: arrays, ShapeDtypeStructs or ShapedArrays, in pytrees.
        **kwargs: likewise.

    Returns:
        The output's pytree with a ShapeDtypeStruct for each array.

    >>> import veery, veery.numpy as jnp
    >>> veery.eval_shape(jnp.dot, veery.ShapeDtypeStruct((2, 3), "float32"), veery.ShapeDtypeStruct((3,), "float32"))
    ShapeDtypeStruct(shape=(2,), dtype=float32)
    """
    traced = fun if isinstance(fun, JitFunction) else jit(fun)
    return traced.eval_shape(*args, **kwargs)


def make_jaxpr(
    fun: Callable[..., Any],
    static_argnums: int | Sequence[int] = (),
    axis_env: Sequence[tuple[Any, int]] | None = None,
    return_shape: bool = False,
) -> Callable[..., Any]:
    """A function that returns the jaxpr of `fun` for given arguments.

    Args:
        fun: the function to trace.
        static_argnums: positions of arguments that are Python values.
        axis_env: named axes to bring into scope, (name, size) pairs.
        return_shape: whether the output types are returned too.

    >>> import veery, veery.numpy as jnp
    >>> veery.make_jaxpr(jnp.sin)(1.0)
    { lambda ; a:f32[]. let b:f32[] = sin a in (b,) }
    """
    if not callable(fun):
        raise TypeError(f"Expected a callable value, got {fun!r}")
    static = tuple(sorted(as_tuple(static_argnums)))

    @wraps(fun)
    @source.api_boundary
    def make_jaxpr_fun(*args: Any, **kwargs: Any) -> Any:
        if any(not -len(args) <= n < len(args) for n in static):
            raise ValueError(f"make_jaxpr: static_argnums={static}, there are only {len(args)} positional arguments.")
        tracer = JitFunction(fun, JitOptions(static_argnums=tuple(n % len(args) for n in static)))
        with contextlib.ExitStack() as stack:
            for name, size in axis_env or ():
                stack.enter_context(extend_axis_env(name, size))
            _, sig, _ = tracer._signature(args, kwargs, types=True)
            traced = tracer._trace_now(sig, args, kwargs)
        closed = with_consts(traced.closed, traced.consts)
        if not return_shape:
            return closed
        return closed, out_struct(traced.closed.out_avals, traced.out_tree)

    make_jaxpr_fun.__name__ = (
        f"make_jaxpr({make_jaxpr_fun.__name__})" if hasattr(make_jaxpr_fun, "__name__") else "make_jaxpr"
    )
    return make_jaxpr_fun
