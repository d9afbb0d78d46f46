"""Names that may change."""

from veery.experimental import checkify as checkify
from veery.lax._callback import io_callback as io_callback
