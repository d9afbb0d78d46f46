"""Empty, as it is in JAX: what was here belonged to XLA."""

from veery._core.absent import attributes as _attributes

__getattr__, __dir__ = _attributes(__name__)
