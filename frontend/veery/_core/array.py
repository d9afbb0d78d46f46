"""Concrete arrays: a shape that is known now and a buffer that may still be being computed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from veery._core import dtypes, provided, source
from veery._core.avals import ShapedArray, aval_rules
from veery._core.config import config
from veery._core.layout import Format, row_by_row
from veery._core.memory import DEVICE, MemorySpace
from veery._core.sharding import Sharding, SingleDeviceSharding
from veery._core.trace import Tracer
from veery._core.transfers import guard


class _ArrayMeta(type):
    """Makes tracers instances of Array, so that programs may test for it while they are traced."""

    def __instancecheck__(cls, x: Any) -> bool:
        if type.__instancecheck__(cls, x):
            return True
        return cls is Array and isinstance(x, Tracer) and x.is_array

    def __getattr__(cls, name: str) -> Any:
        """A method or property by its name, for programs that make others of it; operators have `Array` itself."""
        if cls is Array and name in vars(ArrayImpl) and not name.startswith("_"):
            return vars(ArrayImpl)[name]
        raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")

    def __dir__(cls) -> list[str]:
        return sorted({*super().__dir__(), *(name for name in vars(ArrayImpl) if not name.startswith("_"))})


class Array(metaclass=_ArrayMeta):
    """The type of all arrays, concrete or traced. Make one with `veery.numpy.array` and its like.

    Methods and operators are those of `veery.numpy`; that module attaches them to concrete arrays and tracers.
    """

    __slots__ = ("__weakref__",)
    __array_priority__ = 100

    if TYPE_CHECKING:  # what both kinds of array have, for type checkers

        @property
        def shape(self) -> tuple[int, ...]: ...
        @property
        def dtype(self) -> Any: ...
        @property
        def ndim(self) -> int: ...
        @property
        def size(self) -> int: ...
        @property
        def weak_type(self) -> bool: ...
        def __getattr__(self, name: str) -> Any: ...
        def __getitem__(self, index: Any) -> Array: ...
        def __len__(self) -> int: ...
        def __iter__(self) -> Iterator[Array]: ...
        def __bool__(self) -> bool: ...
        def __float__(self) -> float: ...
        def __int__(self) -> int: ...
        def __index__(self) -> int: ...
        def __neg__(self) -> Array: ...
        def __pos__(self) -> Array: ...
        def __abs__(self) -> Array: ...
        def __invert__(self) -> Array: ...
        def __add__(self, other: Any) -> Array: ...
        def __radd__(self, other: Any) -> Array: ...
        def __sub__(self, other: Any) -> Array: ...
        def __rsub__(self, other: Any) -> Array: ...
        def __mul__(self, other: Any) -> Array: ...
        def __rmul__(self, other: Any) -> Array: ...
        def __truediv__(self, other: Any) -> Array: ...
        def __rtruediv__(self, other: Any) -> Array: ...
        def __floordiv__(self, other: Any) -> Array: ...
        def __mod__(self, other: Any) -> Array: ...
        def __pow__(self, other: Any) -> Array: ...
        def __rpow__(self, other: Any) -> Array: ...
        def __matmul__(self, other: Any) -> Array: ...
        def __rmatmul__(self, other: Any) -> Array: ...
        def __and__(self, other: Any) -> Array: ...
        def __or__(self, other: Any) -> Array: ...
        def __xor__(self, other: Any) -> Array: ...
        def __lshift__(self, other: Any) -> Array: ...
        def __rshift__(self, other: Any) -> Array: ...
        def __lt__(self, other: Any) -> Array: ...
        def __le__(self, other: Any) -> Array: ...
        def __gt__(self, other: Any) -> Array: ...
        def __ge__(self, other: Any) -> Array: ...


def is_array(x: Any) -> bool:
    """Whether x is an array, and no number of Python's or NumPy's, which tracers of derivatives may stand for."""
    if not isinstance(x, Tracer):
        return isinstance(x, Array)
    value = x.concrete_value() if x.is_array else x
    return value is None or isinstance(value, ArrayImpl)


class ArrayImpl(Array):
    """An array on a device. Immutable.

    `_buffer` is the runtime's buffer; waiting for it or reading it surfaces an error of the work that makes it.
    `_committed` says whether the user put it on its device. `_a` is the buffer again where the values are numbers:
    what the runtime redirects the buffer protocol to is the first slot by name.
    """

    __slots__ = ("aval", "_buffer", "_committed", "_a")
    aval: ShapedArray

    def __init__(self, aval: ShapedArray, buffer: Any, committed: bool = False):
        self.aval = aval
        self._buffer = buffer
        if aval.is_numeric:
            self._a = buffer
        self._committed = committed

    __hash__ = None  # type: ignore[assignment]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        return self.aval.ndim

    @property
    def size(self) -> int:
        return self.aval.size

    @property
    def weak_type(self) -> bool:
        return self.aval.weak_type

    @property
    def nbytes(self) -> int:
        result: int = self.aval.size * self.aval.dtype.itemsize
        return result

    @property
    def itemsize(self) -> int:
        result: int = self.aval.dtype.itemsize
        return result

    @property
    def device(self) -> Any:
        """The device that holds the array, or its sharding over several."""
        sharding = self.sharding
        return sharding._device if isinstance(sharding, SingleDeviceSharding) else sharding

    def devices(self) -> set[Any]:
        """The set of devices that hold the array."""
        return self.sharding.device_set

    @property
    def sharding(self) -> Sharding:
        """Where the array is."""
        device = self._buffer.device
        return self._buffer.layout if device is None else SingleDeviceSharding(device)

    @property
    def format(self) -> Format:
        """The layout and the sharding."""
        return Format(row_by_row(self.ndim), self.sharding)

    @property
    def committed(self) -> bool:
        """Whether the array was put on its device explicitly."""
        return self._committed

    _sharding = property(lambda self: self.sharding)

    @property
    def addressable_shards(self) -> list[Shard]:
        """The pieces of the array on their devices; a single one for an array on one device."""
        sharding = self.sharding
        if isinstance(sharding, SingleDeviceSharding):
            return [Shard(sharding._device, (slice(None),) * self.ndim, 0, self)]
        aval = self.aval.update(shape=sharding.shard_shape(self.shape), memory_space=MemorySpace.Device)
        seen: dict[Any, int] = {}
        shards = []
        for device, index, piece in zip(
            sharding._device_assignment, sharding.indices(self.shape), self._buffer.pieces()
        ):
            part = tuple((s.start, s.stop) for s in index)
            seen[part] = seen.get(part, -1) + 1
            data = ArrayImpl(aval, piece, True)
            if sharding.memory_kind != DEVICE:
                data = provided.distribution.place(data, SingleDeviceSharding(device, memory_kind=sharding.memory_kind))
            shards.append(Shard(device, index, seen[part], data))
        return shards

    @property
    def global_shards(self) -> list[Shard]:
        """The pieces of the array on all devices: those of this process."""
        return self.addressable_shards

    def addressable_data(self, index: int) -> ArrayImpl:
        """The piece of the array on one of its devices."""
        return self.addressable_shards[index].data

    def on_device_size_in_bytes(self) -> int:
        """The size of the elements in bytes, on all devices together."""
        if self._buffer.device is not None:
            return self.nbytes
        sharding = self.sharding
        piece = self.aval.update(shape=sharding.shard_shape(self.shape))
        result: int = piece.size * self.itemsize * len(sharding._device_assignment)
        return result

    def platform(self) -> str:
        """The kind of device that holds the array: "cpu"..."""
        result: str = next(iter(self.devices())).platform
        return result

    @property
    def is_fully_addressable(self) -> bool:
        return True

    @property
    def is_fully_replicated(self) -> bool:
        return self.sharding.is_fully_replicated

    def to_numpy(self) -> np.ndarray:
        """The values as a read-only NumPy array, without a copy where the device shares the host's memory."""
        try:
            value = self._buffer.numpy()
        except Exception as error:
            source.filter_traceback(error)
            raise
        result: np.ndarray = value if value.shape == self.aval.shape else value.reshape(self.aval.shape)
        return result if result.dtype == self.aval.dtype else dtypes.from_stored(result, self.aval.dtype)

    def block_until_ready(self) -> ArrayImpl:
        """Wait until the value is there; returns the array itself.

        Raises:
            Exception: whatever the computation of the value raised.
        """
        try:
            self._buffer.wait()
        except Exception as error:
            source.filter_traceback(error)
            raise
        return self

    def is_ready(self) -> bool:
        """Whether the value is there."""
        result: bool = self._buffer.is_ready()
        return result

    def copy_to_host_async(self) -> None:
        """Begin to copy the value to the host; there is nothing to do where memory is shared.

        Raises:
            RuntimeError: the array was deleted.
        """
        self._buffer.copy_to_host_async()

    def unsafe_buffer_pointer(self) -> int:
        """The address of the values in the host's memory, which must not be written to.

        Raises:
            NotImplementedError: the array is on a device with memory of its own.
        """
        result: int = self._buffer.unsafe_pointer()
        return result

    def delete(self) -> None:
        """Free the buffer now; later uses raise RuntimeError."""
        self._buffer.delete()

    def is_deleted(self) -> bool:
        """Whether the buffer was freed or donated."""
        result: bool = self._buffer.is_deleted()
        return result

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        value = self._numeric("numpy.asarray")
        if dtype is not None and value.dtype != dtype:
            return value.astype(dtype)
        return value.copy() if copy else value

    def _numeric(self, what: str) -> np.ndarray:
        if isinstance(self.aval.dtype, dtypes.KeyDType):
            raise TypeError(
                "JAX array with PRNGKey dtype cannot be converted to a NumPy array. Use jax.random.key_data(arr) "
                f"instead of {what}(arr)."
            )
        if config.jax_transfer_guard_device_to_host is not None:
            device = self._buffer.device
            if device is not None and device.platform != "cpu":
                guard("device_to_host", self.aval, "the host", explicit=what == "device_get")
        return self.to_numpy()

    def __bool__(self) -> bool:
        if self.size != 1:
            if self.size == 0:
                raise ValueError(
                    "The truth value of an empty array is ambiguous. Use `array.size > 0` to check that an array is "
                    "not empty."
                )
            raise ValueError(
                "The truth value of an array with more than one element is ambiguous. Use a.any() or a.all()"
            )
        return bool(self._numeric("bool").item())

    def _scalar(self, kind: type) -> Any:
        if self.ndim != 0:
            raise TypeError(f"Only scalar arrays can be converted to Python scalars; got arr.ndim={self.ndim}")
        return kind(self._numeric(kind.__name__).item())

    def __float__(self) -> float:
        result: float = self._scalar(float)
        return result

    def __int__(self) -> int:
        result: int = self._scalar(int)
        return result

    def __complex__(self) -> complex:
        return complex(self._scalar(complex))

    def __index__(self) -> int:
        if self.ndim != 0 or not dtypes.issubdtype(self.dtype, np.integer):
            raise TypeError("Only integer scalar arrays can be converted to a scalar index.")
        return int(self._numeric("index").item())

    def __len__(self) -> int:
        return len(self.aval)

    def __iter__(self) -> Iterator[Any]:
        if self.ndim == 0:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(self.shape[0]))

    def __reversed__(self) -> Iterator[Any]:
        return (self[i] for i in reversed(range(len(self))))

    def item(self, *args: Any) -> Any:
        """The value of an array of one element (or of the element at `args`) as a Python scalar."""
        return self._numeric("item").item(*args)

    def tolist(self) -> Any:
        """The values as nested lists of Python scalars."""
        return self._numeric("tolist").tolist()

    def tobytes(self, order: Any = "C") -> bytes:
        """The values as bytes."""
        return self._numeric("tobytes").tobytes(order)

    def __format__(self, spec: str) -> str:
        if isinstance(self.dtype, dtypes.KeyDType):
            return format(str(self), spec)
        return format(self.to_numpy()[()] if self.ndim == 0 else self.to_numpy(), spec)

    def __str__(self) -> str:
        return str(self.to_numpy()) if not isinstance(self.dtype, dtypes.KeyDType) else repr(self)

    def __repr__(self) -> str:
        if self.is_deleted():
            return f"Array({self.aval}, deleted)"
        return array_repr(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (np.array(self.to_numpy()), self.aval.update(divided=None, memory_space=MemorySpace.Device))

    def __buffer__(self, flags: int) -> memoryview:
        """The memory of the values, for Python 3.12 and later where the runtime redirects no requests."""
        return self._numeric("memoryview").data

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any:
        array = provided.backend.array_from_numpy(np.array(self.to_numpy()), self.aval) if copy else self
        buffer = array._buffer
        return buffer.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device)

    def __dlpack_device__(self) -> tuple[int, int]:
        result: tuple[int, int] = self._buffer.__dlpack_device__()
        return result


@dataclass(frozen=True, eq=False)
class Shard:
    """A piece of an array: its device, which part of the array it is, the how manieth copy, and its values."""

    device: Any
    index: tuple[slice, ...]
    replica_id: int
    data: ArrayImpl

    def __repr__(self) -> str:
        return f"Shard(device={self.device!r}, index={self.index}, replica_id={self.replica_id}, data={self.data})"


def _unpickle(value: np.ndarray, aval: ShapedArray) -> ArrayImpl:
    if isinstance(aval.dtype, np.dtype):  # which may have 64 bits where this process has 32
        dtype = dtypes.canonicalize_dtype(aval.dtype)
        value, aval = value.astype(dtype, copy=False), aval.update(dtype=dtype)
    return provided.backend.array_from_numpy(value, aval)


def array_repr(x: ArrayImpl) -> str:
    """NumPy's repr under the name Array, with the dtype and with weak types marked."""
    weak = ", weak_type=True" if x.weak_type else ""
    if isinstance(x.dtype, dtypes.KeyDType):
        words = np.atleast_1d(x.to_numpy()).view(np.uint32).reshape(*x.shape, 2)
        words = np.concatenate([words] * (x.dtype.words // 2), axis=-1)
        return f"Array({x.shape}, dtype={x.dtype.name}) overlaying:\n{words}"
    name = x.dtype.name
    if x.size == 0:
        return f"Array([], shape={x.shape}, dtype={name}{weak})"
    body = np.array2string(x.to_numpy(), separator=", ", prefix="Array(")
    last_line = len(body.rsplit("\n", 1)[-1]) + (6 if "\n" not in body else 0)
    separator = ",\n      " if last_line + len(f", dtype={name}{weak})") > 75 else ", "
    return f"Array({body}{separator}dtype={name}{weak})"


aval_rules[ArrayImpl] = lambda x: x.aval
