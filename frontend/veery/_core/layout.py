"""Layouts: the order of elements in memory, and where an array is. There is one order: row by row."""

from __future__ import annotations

from typing import Any

from veery._core.sharding import NamedSharding, Sharding, SingleDeviceSharding


class _Auto:
    """Stands for a layout that is chosen by the compiler."""

    def __repr__(self) -> str:
        return "AUTO"


AUTO = _Auto()


class Layout:
    """The order of an array's elements in memory.

    Args:
        major_to_minor: the dimensions, the one whose index changes slowest first.
        tiling: sizes of tiles; devices have none.
        sub_byte_element_size_in_bits: of elements that share bytes; 0 for none.

    >>> Layout((0, 1))
    Layout(major_to_minor=(0, 1), tiling=None, sub_byte_element_size_in_bits=0)
    """

    __slots__ = ("major_to_minor", "tiling", "sub_byte_element_size_in_bits")
    AUTO = AUTO

    def __init__(self, major_to_minor: Any, tiling: Any = None, sub_byte_element_size_in_bits: int = 0):
        self.major_to_minor = tuple(major_to_minor)
        self.tiling = None if tiling is None else tuple(map(tuple, tiling))
        self.sub_byte_element_size_in_bits = sub_byte_element_size_in_bits

    def _key(self) -> tuple[Any, ...]:
        return self.major_to_minor, self.tiling, self.sub_byte_element_size_in_bits

    def check_compatible_aval(self, shape: Any) -> None:
        """Raise ValueError if arrays of that shape have another number of dimensions."""
        if len(self.major_to_minor) != len(shape):
            raise ValueError(
                f"Length of major_to_minor and the rank of the value should match. Got major_to_minor="
                f"{self.major_to_minor} and shape={tuple(shape)}"
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return (
            f"Layout(major_to_minor={self.major_to_minor}, tiling={self.tiling}, "
            f"sub_byte_element_size_in_bits={self.sub_byte_element_size_in_bits})"
        )


class Format:
    """A layout and a sharding.

    Args:
        layout: a Layout, Layout.AUTO, or None for the default one.
        sharding: the sharding; needed with a Layout.

    Raises:
        TypeError: the layout is none.
        ValueError: a Layout comes without a sharding over devices.

    >>> Format()
    Format(layout=None, sharding=None)
    """

    __slots__ = ("layout", "sharding")

    def __init__(self, layout: Any = None, sharding: Any = None):
        if layout is not None and layout is not AUTO and not isinstance(layout, Layout):
            raise TypeError(
                "Invalid value received for the layout argument. Expected values are `None`, `Layout.AUTO` or an "
                f"instance of `Layout`. Got {layout} of type {type(layout)}"
            )
        if sharding is not None and sharding is not AUTO and not isinstance(sharding, Sharding):
            raise TypeError(
                "Invalid value received for the sharding argument. Expected values are `None` or an instance of "
                f"`jax.Sharding`. Got {sharding} of type {type(sharding)}"
            )
        if isinstance(layout, Layout) and not isinstance(sharding, (NamedSharding, SingleDeviceSharding)):
            raise ValueError(
                f"Sharding has to be concrete when layout is of type {type(layout)}. Please pass a "
                "`jax.sharding.NamedSharding` or `jax.sharding.SingleDeviceSharding` to the sharding argument. Got "
                f"sharding {sharding}"
            )
        self.layout = layout
        self.sharding = sharding

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Format) and (self.layout, self.sharding) == (other.layout, other.sharding)

    def __hash__(self) -> int:
        return hash((self.layout, self.sharding))

    def __repr__(self) -> str:
        return f"Format(layout={self.layout}, sharding={self.sharding})"


def row_by_row(ndim: int) -> Layout:
    """The layout that arrays have."""
    return Layout(tuple(range(ndim)), ())


def sharding_of(place: Any, ndim: int) -> Any:
    """The sharding that a Format speaks of; anything else as it is.

    Raises:
        NotImplementedError: it asks for another order than row by row.
    """
    if not isinstance(place, Format):
        return place
    if isinstance(place.layout, Layout):
        place.layout.check_compatible_aval((0,) * ndim)
        if place.layout.major_to_minor != tuple(range(ndim)):
            raise NotImplementedError(
                f"{place.layout}: arrays are laid out row by row, major_to_minor={tuple(range(ndim))}. Transpose the "
                "array instead."
            )
    return place.sharding
