"""Names that may change."""

from veery._core.absent import attributes as _attributes
from veery._core.hitypes import cur_qdd as cur_qdd
from veery.experimental import checkify as checkify, compilation_cache as compilation_cache, shard_map as shard_map
from veery.lax._callback import io_callback as io_callback

__getattr__, __dir__ = _attributes(__name__)
