"""Meshes: devices arranged along named axes, and the mesh in whose context a program runs."""

from __future__ import annotations

import contextlib
import enum
import math
import warnings
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from veery._core.config import config


class AxisType(enum.Enum):
    """Who decides how arrays are divided over a mesh axis.

    Attributes:
        Auto: the compiler.
        Explicit: the program, by the types of its arrays.
        Manual: the program, which is written for one device's part (`shard_map`).
    """

    Auto = 1
    Explicit = 2
    Manual = 3

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class AbstractDevice:
    """The kind of device that a mesh is of."""

    device_kind: str
    num_cores: int | None
    platform: str

    def __repr__(self) -> str:
        return f"AbstractDevice(device_kind={self.device_kind}, num_cores={self.num_cores}, platform={self.platform})"


def _axis_types(given: Any, names: tuple[Any, ...], what: str) -> tuple[AxisType, ...]:
    if given is None:
        return (AxisType.Auto,) * len(names)
    types = (given,) if isinstance(given, AxisType) else tuple(given)
    if not all(isinstance(t, AxisType) for t in types):
        raise TypeError(
            f"axis_types passed to {what} must be of type `jax.sharding.AxisType`. Got {types} of type "
            f"{tuple(map(type, types))}"
        )
    if len(types) != len(names):
        raise ValueError(
            f"Number of axis names should match the number of axis_types. Got axis_names={names} and axis_types={types}"
        )
    return types


class _Axes:
    """What meshes of devices and abstract ones have in common: names, sizes and types of axes."""

    __slots__ = ()
    axis_names: tuple[Any, ...]
    axis_types: tuple[AxisType, ...]

    @property
    def axis_sizes(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        raise NotImplementedError

    @property
    def shape_tuple(self) -> tuple[tuple[Any, int], ...]:
        """Pairs of the axes' names and sizes."""
        return tuple(zip(self.axis_names, self.axis_sizes))

    @property
    def shape(self) -> OrderedDict[Any, int]:
        """The sizes of the axes by their names."""
        return OrderedDict(self.shape_tuple)

    @property
    def size(self) -> int:
        """The number of devices."""
        return math.prod(self.axis_sizes) if self.axis_names else 0

    @property
    def empty(self) -> bool:
        """Whether there are no axes."""
        return self.size == 0

    def _of_type(self, wanted: AxisType) -> tuple[Any, ...]:
        return tuple(name for name, kind in zip(self.axis_names, self.axis_types) if kind is wanted)

    auto_axes = property(lambda self: self._of_type(AxisType.Auto), doc="The axes of type Auto.")
    explicit_axes = property(lambda self: self._of_type(AxisType.Explicit), doc="The axes of type Explicit.")
    manual_axes = property(lambda self: self._of_type(AxisType.Manual), doc="The axes of type Manual.")

    def _all_of(self, wanted: AxisType) -> bool:
        return bool(self.axis_types) and all(kind is wanted for kind in self.axis_types)

    are_all_axes_auto = property(lambda self: self._all_of(AxisType.Auto), doc="Whether all axes are Auto.")
    are_all_axes_explicit = property(lambda self: self._all_of(AxisType.Explicit), doc="Whether all are Explicit.")
    are_all_axes_manual = property(lambda self: self._all_of(AxisType.Manual), doc="Whether all axes are Manual.")

    @property
    def _name_to_type(self) -> dict[Any, AxisType]:
        return dict(zip(self.axis_names, self.axis_types))

    def _axes_text(self) -> str:
        return "".join(f"{name!r}: {size}, " for name, size in self.shape_tuple)


class AbstractMesh(_Axes):
    """A mesh without its devices: names, sizes and types of its axes.

    Args:
        axis_sizes: sizes.
        axis_names: names.
        axis_types: an AxisType for each axis, or one for all; Auto by default.
        abstract_device: the kind of its devices, if it is known.

    Raises:
        ValueError: there are not as many names or types as sizes.

    >>> AbstractMesh((4, 2), ("x", "y")).shape["y"]
    2
    """

    __slots__ = ("_sizes", "axis_names", "axis_types", "abstract_device", "_hash", "__weakref__")

    def __init__(
        self,
        axis_sizes: Sequence[int],
        axis_names: Sequence[Any],
        axis_types: Any = None,
        *,
        abstract_device: AbstractDevice | None = None,
    ):
        names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
        self._sizes = tuple(int(size) for size in axis_sizes)
        if len(self._sizes) != len(names):
            raise ValueError(
                f"AbstractMesh: {len(self._sizes)} sizes {self._sizes} for {len(names)} axis names {names}"
            )
        self.axis_names = names
        self.axis_types = _axis_types(axis_types, names, "AbstractMesh")
        self.abstract_device = abstract_device
        self._hash = hash((self._sizes, self.axis_names, self.axis_types, abstract_device))

    @property
    def axis_sizes(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        return self._sizes

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """Itself."""
        return self

    def update(
        self, axis_sizes: Any = None, axis_names: Any = None, axis_types: Any = None, **kwargs: Any
    ) -> AbstractMesh:
        """The mesh with some of its fields replaced."""
        return AbstractMesh(
            self._sizes if axis_sizes is None else axis_sizes,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
            abstract_device=kwargs.get("abstract_device", self.abstract_device),
        )

    def update_axis_types(self, types: dict[Any, AxisType]) -> AbstractMesh:
        """The mesh with other types of the axes that are named."""
        return self.update(axis_types=tuple(types.get(n, t) for n, t in zip(self.axis_names, self.axis_types)))

    def _refuse(self, what: str) -> Any:
        raise ValueError(f"AbstractMesh does not implement {what}")

    devices = property(lambda self: self._refuse("devices"))
    device_ids = property(lambda self: self._refuse("device_ids"))
    is_multi_process = property(lambda self: self._refuse("is_multi_process"))
    local_devices = property(lambda self: self._refuse("local_devices"))
    local_mesh = property(lambda self: self._refuse("local_mesh"))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, AbstractMesh):
            return False
        mine = (self._sizes, self.axis_names, self.axis_types, self.abstract_device)
        return mine == (other._sizes, other.axis_names, other.axis_types, other.abstract_device)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        axes = self._axes_text() or "(), "
        device = self.abstract_device
        kind = (
            f", device_kind={device.device_kind}, num_cores={device.num_cores}, platform={device.platform}"
            if device
            else ""
        )
        return f"AbstractMesh({axes}axis_types={self.axis_types}{kind})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _abstract, (self._sizes, self.axis_names, self.axis_types, self.abstract_device)


def _abstract(sizes: Any, names: Any, types: Any, device: Any) -> AbstractMesh:
    return AbstractMesh(sizes, names, types, abstract_device=device)


EMPTY_ABSTRACT_MESH = AbstractMesh((), ())


class Mesh(_Axes):
    """Devices in an array, whose dimensions have names.

    Args:
        devices: an array of devices, or nested lists.
        axis_names: a name for each dimension.
        axis_types: an AxisType for each axis; Auto by default.

    Raises:
        ValueError: there are not as many names or types as dimensions.
        TypeError: an axis type is none.

    >>> import veery
    >>> Mesh(veery.devices()[:1], ("x",))
    Mesh(axis_sizes=(1,), axis_names=('x',), axis_types=(Auto,))
    """

    __slots__ = ("devices", "axis_names", "axis_types", "_entered", "_hash", "_abstract", "__weakref__")
    devices: np.ndarray

    def __init__(self, devices: Any, axis_names: Any, axis_types: Any = None):
        array = np.array(devices, dtype=object)
        names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
        if array.ndim != len(names):
            raise ValueError(
                "Mesh requires the ndim of its first argument (`devices`) to equal the length of its second argument "
                f"(`axis_names`), but got devices.ndim == {array.ndim} and len(axis_names) == {len(names)}."
            )
        array.flags.writeable = False
        self.devices = array
        self.axis_names = names
        self.axis_types = _axis_types(axis_types, names, "Mesh")
        self._entered: list[Any] = []
        self._hash = hash((array.shape, names, self.axis_types, tuple(array.flat)))
        self._abstract: AbstractMesh | None = None

    @property
    def axis_sizes(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        return self.devices.shape

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """The mesh without its devices."""
        if self._abstract is None:
            first = next(iter(self.devices.flat)) if self.size else None
            device = first and AbstractDevice(first.device_kind, getattr(first, "num_cores", None), first.platform)
            self._abstract = AbstractMesh(self.axis_sizes, self.axis_names, self.axis_types, abstract_device=device)
        return self._abstract

    @property
    def device_ids(self) -> np.ndarray:
        """The ids of the devices, in their arrangement."""
        return np.array([device.id for device in self.devices.flat], np.int64).reshape(self.devices.shape)

    @property
    def is_multi_process(self) -> bool:
        """Whether devices of other processes are among them: no."""
        return False

    @property
    def local_devices(self) -> list[Any]:
        """The devices of this process, which are all."""
        return list(self.devices.flat)

    @property
    def local_mesh(self) -> Mesh:
        """The part of the mesh that is of this process: the whole."""
        return self

    def update(self, devices: Any = None, axis_names: Any = None, axis_types: Any = None) -> Mesh:
        """The mesh with some of its fields replaced."""
        return Mesh(
            self.devices if devices is None else devices,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
        )

    def __enter__(self) -> Mesh:
        warnings.warn(
            "`with mesh:` context manager has been deprecated. Please use `with jax.set_mesh(mesh):` instead.",
            DeprecationWarning,
            stacklevel=2,
        )
        context = using(entered=self)
        context.__enter__()
        self._entered.append(context)
        return self

    def __exit__(self, *error: Any) -> None:
        self._entered.pop().__exit__(*error)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Mesh) or self._hash != other._hash:
            return False
        mine = (self.devices.shape, self.axis_names, self.axis_types, tuple(self.devices.flat))
        return mine == (other.devices.shape, other.axis_names, other.axis_types, tuple(other.devices.flat))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return Mesh, (self.devices, self.axis_names, self.axis_types)

    def __copy__(self) -> Mesh:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Mesh:
        return self

    def __repr__(self) -> str:
        types = f", axis_types={self.axis_types}" if any(device is not None for device in self.devices.flat) else ""
        return f"Mesh(axis_sizes={self.axis_sizes}, axis_names={self.axis_names}{types})"

    def __str__(self) -> str:
        return f"Mesh({self._axes_text()}axis_types={self.axis_types})" if self.axis_names else "Mesh()"


def devices_of(mesh: Any) -> tuple[Any, ...]:
    """The devices of a mesh, in the order of its positions."""
    return tuple(mesh.devices.flat)


# The context that programs run in.


class MeshContext(NamedTuple):
    """The meshes that names in PartitionSpecs refer to.

    Attributes:
        concrete: that of `set_mesh`.
        abstract: its abstract form, in which `shard_map` makes axes manual; or that of `use_abstract_mesh`.
        entered: that of `with mesh:`, the older form.
        tracked: the axes over which it is known of each value whether it varies (`shard_map` with check_vma).
        settled: whether it need not be told how results are divided over Explicit axes where that is ambiguous: it was
            when the program was traced, or what follows lays them out.
    """

    concrete: Mesh | None = None
    abstract: AbstractMesh | None = None
    entered: Mesh | None = None
    tracked: tuple[Any, ...] = ()
    settled: bool = False


_NO_CONTEXT = MeshContext()
EMPTY_MESH = Mesh(np.empty((), dtype=object), ())


def context() -> MeshContext:
    """The meshes of this thread's context."""
    return config._mesh or _NO_CONTEXT


@contextlib.contextmanager
def using(**fields: Any) -> Iterator[None]:
    """A context in which some of the fields of the mesh context are replaced."""
    previous = config._mesh
    config.set_mesh(context()._replace(**fields))
    try:
        yield
    finally:
        config.set_mesh(previous)


def current_mesh() -> Mesh | None:
    """The mesh of devices that names refer to: that of `set_mesh`, else of `with mesh:`; None where there is none."""
    found = context()
    return found.concrete or found.entered
