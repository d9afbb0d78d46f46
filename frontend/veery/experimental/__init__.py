"""Names that may change."""

from veery._core.absent import attributes as _attributes
from veery.experimental import checkify as checkify
from veery.lax._callback import io_callback as io_callback

__getattr__, __dir__ = _attributes(__name__)
