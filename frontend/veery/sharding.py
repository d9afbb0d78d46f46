"""Where arrays are."""

from veery._core.sharding import Sharding as Sharding
from veery._core.sharding import SingleDeviceSharding as SingleDeviceSharding
from veery._core.sharding import make_single_device_sharding as make_single_device_sharding
