"""Arrays of 64 bits where the setting for them is off: they come from where a program turned it on for a while."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from veery._core.config import config, enable_x64

_WIDE = frozenset(map(np.dtype, ("int64", "uint64", "float64", "complex128")))
_NOTHING = contextlib.nullcontext()


def keeping(values: Iterable[Any]) -> contextlib.AbstractContextManager[None]:
    """A context for applying rules to arrays (or variables' avals): the numbers in them keep the dtype of these."""
    if not config.jax_enable_x64:
        for x in values:  # NumPy's own are of 64 bits unless told otherwise, and mean nothing by it
            if getattr(x, "dtype", None) in _WIDE and not isinstance(x, (np.ndarray, np.generic)):
                return enable_x64(True)
    return _NOTHING
