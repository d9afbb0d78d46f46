"""What programs keep, and in which order: tokens, sinks, values as part of a trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from veery._core import source, tree
from veery._core.avals import aval_of
from veery._core.jaxpr import Effect
from veery._core.primitive import Primitive
from veery._transforms.calls import jit_p
from veery.lax import _bodies, _shape


def create_token(_: Any = None) -> Any:
    """A token, for functions that pass one on to say what comes first.

    It is an array of no elements: Python functions that a program calls keep their order by themselves
    (`io_callback(..., ordered=True)`).

    >>> from veery import lax
    >>> lax.after_all(lax.create_token(), lax.create_token()).size
    0
    """
    return _shape.full((0,), False)


def after_all(*operands: Any) -> Any:
    """One token for several."""
    return _shape.concatenate([create_token(), *operands], 0)


class SinkEffect(Effect):
    """The operands are kept although nothing reads them."""


_sink_effect = SinkEffect()


def dce_sink(val: Any, *, prevent_mlir_dce: bool = False) -> None:
    """Keep what computes the arrays of a pytree in jaxprs, although nothing reads it.

    Args:
        val: pytree of arrays.
        prevent_mlir_dce: accepted for compatibility: IREE leaves out what has no effect.

    >>> import veery
    >>> print(veery.make_jaxpr(lambda x: veery.lax.dce_sink(veery.lax.sin(x)))(1.0))
    { lambda ; a:f32[]. let b:f32[] = sin a; dce_sink b in () }
    """
    tree.tree_map(dce_sink_p.bind, val)


def _nothing_batched(args: Any, dims: Any) -> tuple[list[Any], list[Any]]:
    return dce_sink_p.bind(*args), []


dce_sink_p: Primitive = Primitive(
    "dce_sink",
    multiple_results=True,
    abstract_eval=lambda *avals: [],
    effects=lambda *avals: {_sink_effect},
    jvp=lambda primals, tangents: (dce_sink_p.bind(*primals), []),
    batch=_nothing_batched,
    reference=lambda *xs: [],
)


def stage(x: Any, /) -> Any:
    """The value as part of what is being traced; an array outside of tracing.

    >>> from veery import lax
    >>> lax.stage(3.0)
    Array(3., dtype=float32, weak_type=True)
    """
    return _shape.copy_p.bind(x)


@source.api_boundary
def composite(decomposition: Callable[..., Any], name: str, version: int = 0) -> Callable[..., Any]:
    """A function that jaxprs and programs keep as one call of a given name.

    Args:
        decomposition: what it computes.
        name: what it is called.
        version: accepted for compatibility.

    Returns:
        The function. Keyword arguments are passed on as they are: they are no arrays.

    >>> from veery import lax
    >>> tangent = lax.composite(lambda x: lax.sin(x) / lax.cos(x), "my.tangent")
    >>> round(float(tangent(1.0)), 4)
    1.5574
    """

    def composed(*args: Any, **attributes: Any) -> Any:
        def call(*arrays: Any) -> Any:
            return decomposition(*arrays, **attributes)

        leaves, in_tree = tree.tree_flatten(args)
        body = _bodies.stage_body(call, in_tree, [aval_of(x) for x in leaves], "composite")
        return tree.tree_unflatten(body.out_tree, jit_p.bind(*body.consts, *leaves, jaxpr=body.jaxpr, name=name))

    return composed
