"""The operation that calls a StableHLO module made elsewhere."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from veery._core import dtypes
from veery._core.avals import ShapedArray
from veery._core.primitive import Primitive


def avals_of(signature: Any) -> list[ShapedArray]:
    """The types of a module's arguments or results."""
    return [ShapedArray(shape, np.dtype(getattr(dtypes, name, name))) for shape, name in signature]


def _abstract_eval(*avals: ShapedArray, module: Any) -> list[ShapedArray]:
    expected = avals_of(module.inputs)
    if len(avals) != len(expected):
        raise TypeError(f"the StableHLO module {module.name} takes {len(expected)} arrays, got {len(avals)}")
    for i, (got, want) in enumerate(zip(avals, expected)):
        if (got.shape, got.dtype) != (want.shape, want.dtype):
            name = module.names[i] or i
            raise TypeError(
                f"argument {name} of the StableHLO module {module.name} must be {want.str_short()}, "
                f"got {got.str_short()}"
            )
    return avals_of(module.outputs)


def _no_jvp(primals: Any, tangents: Any, *, module: Any) -> NoReturn:
    raise NotImplementedError(
        f"the StableHLO module {module.name} cannot be differentiated: it is compiled code. Export the function with "
        "vjp_order=1, or give it a derivative with custom_vjp"
    )


def _batch(args: Any, dims: Any, *, module: Any) -> NoReturn:
    raise NotImplementedError(
        f"the StableHLO module {module.name} cannot be mapped by vmap: it is made for one shape. Use lax.map"
    )


call_module_p = Primitive(
    "call_module", multiple_results=True, abstract_eval=_abstract_eval, jvp=_no_jvp, batch=_batch
)
