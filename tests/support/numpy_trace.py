"""Evaluation of operations by their NumPy references: the rules of primitives tested without a compiler.

    with numpy_evaluation():
        jvp(fun, primals, tangents)

All transformations work within the context, since theirs are traces whose parent is the current one. With 64-bit types
enabled, derivatives can be compared with numerical differences in float64. Each result is checked against the abstract
evaluation rule, so that a rule that promises another shape or dtype than the operation has does not pass unseen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from veery._core.avals import ShapedArray, aval_of
from veery._core.jaxpr import reference_eval
from veery._core.primitive import Primitive
from veery._core.trace import EvalTrace, Trace, Tracer, leaked_tracer_error, set_current_trace


class NumpyTrace(EvalTrace):
    """Evaluates operations at once, in NumPy."""

    __slots__ = ()

    def process_primitive(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        for arg in args:
            if isinstance(arg, Tracer):
                raise leaked_tracer_error(arg, f"the operation {primitive}")
        closed = params.get("jaxpr") if primitive.name == "jit" else params.get("call_jaxpr")
        if closed is not None and primitive.reference is None:
            return reference_eval(closed, *args)
        if primitive.reference is None:
            raise AssertionError(f"{primitive} has no reference")
        avals = [aval_of(x) for x in args]
        out_avals = primitive.abstract_eval(*avals, **params)
        operands = [np.asarray(x, _physical(aval.dtype)) for x, aval in zip(args, avals, strict=True)]
        out = primitive.reference(*operands, **params)
        if not primitive.multiple_results:
            return _checked(primitive, out, out_avals)
        return [_checked(primitive, x, aval) for x, aval in zip(out, out_avals, strict=True)]


def _physical(dtype: Any) -> np.dtype:
    return getattr(dtype, "physical", dtype)


def _checked(primitive: Primitive, out: Any, aval: ShapedArray) -> np.ndarray:
    assert isinstance(out, np.ndarray), f"the reference of {primitive} gave a {type(out)}"
    assert (out.shape, out.dtype) == (aval.shape, _physical(aval.dtype)), (
        f"{primitive}: the reference gave {out.dtype}{list(out.shape)}, abstract evaluation says {aval}"
    )
    return out


@contextmanager
def numpy_evaluation() -> Iterator[Trace]:
    """Evaluate this thread's operations in NumPy."""
    with set_current_trace(NumpyTrace(None)) as trace:
        yield trace
