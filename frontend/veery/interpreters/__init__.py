"""The rules of primitives, for programs that define primitives of their own."""

from veery.interpreters import ad as ad
from veery.interpreters import batching as batching
from veery.interpreters import mlir as mlir
from veery.interpreters import partial_eval as partial_eval
from veery.interpreters import xla as xla
