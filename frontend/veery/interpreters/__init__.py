"""The rules of primitives, for programs that define primitives of their own."""

from veery._core.absent import attributes as _attributes
from veery.interpreters import (
    ad as ad,
    batching as batching,
    mlir as mlir,
    partial_eval as partial_eval,
    pxla as pxla,
    xla as xla,
)

__getattr__, __dir__ = _attributes(__name__)
