"""Where arrays are."""

from veery._core.absent import attributes as _attributes
from veery._core.sharding import (
    Sharding as Sharding,
    SingleDeviceSharding as SingleDeviceSharding,
    make_single_device_sharding as make_single_device_sharding,
)

__getattr__, __dir__ = _attributes(__name__)
