"""Which operation made a NaN or an infinity, where the settings ask for that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from veery._core import dtypes, source
from veery._core.array import ArrayImpl
from veery._core.config import config
from veery._core.jaxpr import ClosedJaxpr, eval_jaxpr
from veery._core.trace import eval_trace, set_current_trace
from veery._transforms.dce import side_effects


def check_special(
    outs: Sequence[Any], name: str, closed: ClosedJaxpr | None = None, args: Sequence[ArrayImpl] = ()
) -> None:
    """Look for NaN and infinity where the settings ask for it.

    Args:
        outs: the outputs.
        name: of the function that made them.
        closed, args: its jaxpr and arguments, by which the operation at fault is looked for, one by one.

    Raises:
        FloatingPointError: with the name of the operation, if it could be found.
    """
    if not (config.jax_debug_nans or config.jax_debug_infs):
        return
    found = next(filter(None, map(_special_value, outs)), None)
    if found is None:
        return
    if closed is not None and len(closed.eqns) > 1 and not side_effects(closed.effects):
        if not any(x.is_deleted() for x in args):
            with set_current_trace(eval_trace):
                eval_jaxpr(closed.jaxpr, closed.consts, *args)  # raises where a value is first seen
    elif closed is not None and len(closed.eqns) == 1:
        name = closed.eqns[0].primitive.name
    place = source.current()
    where = f" at {place}" if place.line else ""
    raise FloatingPointError(f"invalid value ({found}) encountered in {name}{where}")


def _special_value(x: Any) -> str | None:
    """What the array holds that the settings forbid: "nan", "inf" or None."""
    if not dtypes.issubdtype(x.dtype, np.inexact):
        return None
    value = np.asarray(x.to_numpy())
    if config.jax_debug_nans and np.isnan(value).any():
        return "nan"
    return "inf" if config.jax_debug_infs and np.isinf(value).any() else None
