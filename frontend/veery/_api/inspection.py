"""Looking at functions without running them: jaxprs and output types."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from veery._api.arguments import as_tuple
from veery._api.jit import JitFunction, JitOptions, jit
from veery._core import dtypes, source, tree
from veery._core.avals import ShapedArray, aval_of, aval_rules
from veery._core.jaxpr import ClosedJaxpr


class ShapeDtypeStruct:
    """The shape and dtype of an array, without an array.

    Args:
        shape: tuple of ints, or of symbolic dimensions (see `veery.export.symbolic_shape`).
        dtype: the dtype.
        weak_type: whether the dtype gives way to others.
        sharding: accepted for compatibility.

    >>> import veery
    >>> veery.ShapeDtypeStruct((2, 3), "float32")
    ShapeDtypeStruct(shape=(2, 3), dtype=float32)
    """

    __slots__ = ("shape", "dtype", "weak_type", "sharding")

    def __init__(self, shape: Sequence[int], dtype: Any, *, weak_type: bool = False, sharding: Any = None):
        if dtype is None:
            raise ValueError("ShapeDtypeStruct: dtype must be specified.")
        self.shape = tuple(shape)
        self.dtype = dtypes.as_dtype(dtype)
        self.weak_type = weak_type
        self.sharding = sharding

    @classmethod
    def like(cls, x: Any) -> ShapeDtypeStruct:
        """The struct of an array, a scalar or anything with a shape and a dtype."""
        aval = aval_of(x)
        return cls(aval.shape, aval.dtype, weak_type=aval.weak_type)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return ShapedArray(self.shape, self.dtype).size

    def update(self, **changes: Any) -> ShapeDtypeStruct:
        """The struct with some of shape, dtype and weak_type replaced."""
        fields = {"shape": self.shape, "dtype": self.dtype, "weak_type": self.weak_type} | changes
        return ShapeDtypeStruct(fields.pop("shape"), fields.pop("dtype"), **fields)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, ShapeDtypeStruct):
            return NotImplemented
        return (self.shape, self.dtype, self.weak_type) == (other.shape, other.dtype, other.weak_type)

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype, self.weak_type))

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype.name}{weak})"


aval_rules[ShapeDtypeStruct] = lambda s: ShapedArray(
    s.shape, dtypes.canonicalize_dtype(s.dtype, allow_extended_dtype=True), s.weak_type
)


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
        *args: arrays or ShapeDtypeStructs, in pytrees.
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

    @functools.wraps(fun, assigned=("__module__", "__name__", "__qualname__", "__doc__"), updated=())
    @source.api_boundary
    def make_jaxpr_fun(*args: Any, **kwargs: Any) -> Any:
        import contextlib

        from veery._core.trace import extend_axis_env

        if any(not -len(args) <= n < len(args) for n in static):
            raise ValueError(f"make_jaxpr: static_argnums={static}, there are only {len(args)} positional arguments.")
        tracer = JitFunction(fun, JitOptions(static_argnums=tuple(n % len(args) for n in static)))
        with contextlib.ExitStack() as stack:
            for name, size in axis_env or ():
                stack.enter_context(extend_axis_env(name, size))
            _, sig, _ = tracer._signature(args, kwargs)
            traced = tracer._trace_now(sig, args, kwargs)
        closed = _with_consts(traced.closed, traced.consts)
        if not return_shape:
            return closed
        return closed, out_struct(traced.closed.out_avals, traced.out_tree)

    make_jaxpr_fun.__name__ = (
        f"make_jaxpr({make_jaxpr_fun.__name__})" if hasattr(make_jaxpr_fun, "__name__") else "make_jaxpr"
    )
    return make_jaxpr_fun


def _with_consts(closed: ClosedJaxpr, consts: list[Any]) -> ClosedJaxpr:
    """The jaxpr with its leading arguments turned back into constants."""
    jaxpr = closed.jaxpr
    n = len(consts)
    return ClosedJaxpr(jaxpr.replace(constvars=jaxpr.invars[:n], invars=jaxpr.invars[n:]), consts)


def out_struct(avals: Sequence[ShapedArray], out_tree: Any) -> Any:
    """A pytree of ShapeDtypeStructs."""
    return tree.tree_unflatten(out_tree, [ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in avals])
