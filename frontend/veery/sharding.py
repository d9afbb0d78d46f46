"""Where arrays are: devices, meshes of them, and how arrays are laid out over these."""

from veery._api.meshes import (
    get_abstract_mesh as get_abstract_mesh,
    get_mesh as get_mesh,
    set_mesh as set_mesh,
    use_abstract_mesh as use_abstract_mesh,
)
from veery._api.shard_map import Infer as Infer
from veery._api.sharded_arrays import auto_axes as auto_axes, explicit_axes as explicit_axes, reshard as reshard
from veery._core.absent import attributes as _attributes
from veery._core.avals import ManualAxisType as ManualAxisType
from veery._core.mesh import (
    AbstractDevice as AbstractDevice,
    AbstractMesh as AbstractMesh,
    AxisType as AxisType,
    Mesh as Mesh,
)
from veery._core.partition_spec import PartitionSpec as PartitionSpec
from veery._core.sharding import (
    NamedSharding as NamedSharding,
    Sharding as Sharding,
    SingleDeviceSharding as SingleDeviceSharding,
    make_single_device_sharding as make_single_device_sharding,
)

__getattr__, __dir__ = _attributes(__name__)
