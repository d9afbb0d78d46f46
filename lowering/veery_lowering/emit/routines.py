"""Calls of LAPACK's routines in programs for the CPU that are not saved."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.emit.registry import Context, Value
from veery_lowering.kernels import CALL, Step
from veery_lowering.types import tensor_type

# A matrix of more elements than this has several of OpenBLAS's threads; those of a stack have workgroups.
_ALONE = 1 << 18
_MOST_ELEMENTS = 1 << 28  # so that memory for work, too, has a number of elements of 32 bits
_LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}


def letter_of(dtype: np.dtype) -> str:
    """With which LAPACK's names of routines for a dtype begin."""
    return _LETTERS[dtype.char]


def has_routines(ctx: Context) -> bool:
    """Whether a program may call LAPACK by address for an equation: its arrays are of LAPACK's dtypes and sizes."""
    avals = (*ctx.avals_in, *ctx.avals_out)
    shapes = [n for aval in avals for n in aval.shape]
    return (
        ctx.target == "cpu"
        and ctx.emitter.routines
        and all(isinstance(n, int) and n for n in shapes)
        and all(math.prod(aval.shape) < _MOST_ELEMENTS for aval in avals)
        and all(aval.dtype.char in _LETTERS or aval.dtype == np.int32 for aval in avals)
    )


def call(
    ctx: Context,
    operands: Sequence[Value],
    results: Sequence[tuple[Sequence[int], Any]],
    steps: Sequence[Step],
    work: Sequence[tuple[int, Any]] = (),
    count: int = 1,
    without_first: Sequence[Step] = (),
) -> list[Value]:
    """Call routines for each matrix of stacks.

    Args:
        operands: stacks of matrices.
        results: the shape and dtype of each result, for all matrices.
        steps: what is done for each; see veery_lowering.kernels._routines.
        work: elements and dtypes of memory for one matrix at a time.
        count: the number of matrices.
        without_first: the steps where nobody reads the first result.
    """
    ctx.emitter.call_routines()
    largest = max(math.prod(hlo.shape_of(x)[-2:]) for x in operands)
    memory = [(size, np.dtype(dtype).name) for size, dtype in work]
    config: dict[str, str | int] = {
        "steps": json.dumps(steps),
        "without_first": json.dumps(without_first or steps),
        "scratch": json.dumps(memory),
        "count": count,
        "alone": int(largest <= _ALONE or count > 1),
    }
    types = [tensor_type(tuple(shape), np.dtype(dtype).name) for shape, dtype in results]
    return hlo.custom_call(CALL, operands, types, config, has_side_effect=False)
