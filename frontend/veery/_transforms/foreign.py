"""The operation that calls a StableHLO module made elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import numpy as np

from veery._core import dtypes
from veery._core.avals import ShapedArray
from veery._core.dimensions import SymbolicScope, is_symbolic, is_symbolic_dim, may_fit, parse_dimension, values_of
from veery._core.primitive import Primitive


class Types(NamedTuple):
    """The types of a module's arguments and results."""

    inputs: tuple[ShapedArray, ...]
    outputs: tuple[ShapedArray, ...]


def avals_of(signature: Any, scope: SymbolicScope | None = None) -> list[ShapedArray]:
    """The types that a signature describes; texts in its shapes are dimensions of a scope."""
    dimension = lambda d: parse_dimension(d, scope or SymbolicScope()) if isinstance(d, str) else d
    return [
        ShapedArray(tuple(map(dimension, shape)), np.dtype(getattr(dtypes, name, name))) for shape, name in signature
    ]


def types_of(module: Any) -> Types:
    """The types of a module of static shapes."""
    return Types(tuple(avals_of(module.inputs)), tuple(avals_of(module.outputs)))


def _abstract_eval(*avals: ShapedArray, module: Any, types: Types) -> list[ShapedArray]:
    if len(avals) != len(types.inputs):
        raise TypeError(f"the StableHLO module {module.name} takes {len(types.inputs)} arrays, got {len(avals)}")
    for i, (got, want) in enumerate(zip(avals, types.inputs)):
        if got.dtype != want.dtype or not may_fit(got.shape, want.shape):
            name = module.names[i] or i
            raise TypeError(
                f"argument {name} of the StableHLO module {module.name} must be {want.str_short()}, "
                f"got {got.str_short()}"
            )
    values = values_of([a.shape for a in types.inputs], [a.shape for a in avals])
    concrete: Callable[[Any], tuple[Any, ...]] = lambda shape: tuple(
        d.evaluate(values) if is_symbolic_dim(d) else d for d in shape
    )
    return [a.update(shape=concrete(a.shape)) if is_symbolic(a.shape) else a for a in types.outputs]


def _no_jvp(primals: Any, tangents: Any, *, module: Any, types: Types) -> NoReturn:
    raise NotImplementedError(
        f"the StableHLO module {module.name} cannot be differentiated: it is compiled code. Export the function with "
        "vjp_order=1, or give it a derivative with custom_vjp"
    )


def _batch(args: Any, dims: Any, *, module: Any, types: Types) -> NoReturn:
    raise NotImplementedError(
        f"the StableHLO module {module.name} cannot be mapped by vmap: it is made for one shape. Use lax.map"
    )


call_module_p = Primitive("call_module", multiple_results=True, abstract_eval=_abstract_eval, jvp=_no_jvp, batch=_batch)
