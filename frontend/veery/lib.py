"""What is left of it in JAX: the version of jaxlib, for programs that go by it. There is no jaxlib here."""

from veery._core.absent import attributes as _attributes
from veery.version import JAX_VERSION as _jax_version

__version__ = _jax_version

__getattr__, __dir__ = _attributes(__name__)
