"""Looking at where arrays are: `debug.visualize_array_sharding` and `debug.inspect_array_sharding`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from veery import _dispatch
from veery._core import source, tree
from veery._core.array import ArrayImpl
from veery._core.effects import DebugEffect
from veery._core.primitive import Primitive
from veery._core.sharding import Sharding, SingleDeviceSharding
from veery.lax._debug import debug_callback

_COLOURS = [41, 42, 43, 44, 45, 46, 101, 102, 103, 104, 105, 106]  # backgrounds, as ANSI's codes


def visualize_sharding(
    shape: Sequence[int],
    sharding: Sharding,
    *,
    use_color: bool = True,
    scale: float = 1.0,
    min_width: int = 9,
    max_width: int = 80,
    color_map: Any = None,
) -> None:
    """Print which devices have which part of an array.

    Args:
        shape: of the array, of one or two dimensions.
        sharding: how it is laid out.
        use_color: whether parts have colours where the output is a terminal.
        scale: of the picture.
        min_width: of a part, in characters.
        max_width: of the picture.
        color_map: a function from the number of a part to an ANSI background colour (a number).

    Raises:
        ValueError: the array has no dimensions, or more than two.

    >>> import veery
    >>> place = veery.NamedSharding(veery.make_mesh((1,), ("x",)), veery.P("x"))
    >>> visualize_sharding((4,), place, scale=0.3)
    ┌─────────┐
    │  CPU 0  │
    └─────────┘
    """
    if len(shape) not in (1, 2):
        raise ValueError("`visualize_sharding` only works for shapes with 1 and 2 dimensions.")
    devices: dict[tuple[int, int], list[int]] = {}
    for device, index in zip(sharding._device_assignment, sharding.indices(tuple(shape))):
        rows, columns = (slice(None), *index) if len(shape) == 1 else index
        devices.setdefault((rows.start or 0, columns.start or 0), []).append(device.id)
    platform = sharding._device_assignment[0].platform.upper()
    texts = {key: f"{platform} {','.join(map(str, ids))}" for key, ids in devices.items()}
    starts = [sorted({key[axis] for key in devices}) for axis in (0, 1)]
    height = 1 if len(shape) == 1 else max(1, round(10 * scale / len(starts[0])) - 1)
    room = max(min_width, (max_width - 1) // len(starts[1]) - 1)
    wide = max(len(text) for text in texts.values()) + 4
    width = max(min_width, min(room, max(wide, round(24 * scale / len(starts[1])))))
    colour = use_color and sys.stdout.isatty()
    line = lambda left, middle, right: left + middle.join("─" * width for _ in starts[1]) + right
    lines = [line("┌", "┬", "┐")]
    for i, row in enumerate(starts[0]):
        for k in range(height):
            cells = []
            for j, column in enumerate(starts[1]):
                cell = (texts[row, column] if k == height // 2 else "").center(width)[:width]
                number = i * len(starts[1]) + j
                code = color_map(number) if color_map else _COLOURS[number % len(_COLOURS)]
                cells.append(f"\033[{code}m{cell}\033[0m" if colour else cell)
            lines.append("│" + "│".join(cells) + "│")
        lines.append(line("├", "┼", "┤") if i + 1 < len(starts[0]) else line("└", "┴", "┘"))
    print("\n".join(lines))


def visualize_array_sharding(arr: Any, **kwargs: Any) -> None:
    """Print which devices have which part of an array, within traced functions too.

    Args:
        arr: the array, of one or two dimensions.
        **kwargs: as for `visualize_sharding`.

    Raises:
        ValueError: the array has no dimensions, or more than two.
    """
    if len(arr.shape) not in (1, 2):
        raise ValueError("`visualize_sharding` only works for shapes with 1 and 2 dimensions.")
    if isinstance(arr, ArrayImpl):
        visualize_sharding(arr.shape, arr.sharding, **kwargs)
    else:
        inspect_array_sharding(arr, callback=lambda sharding: visualize_sharding(arr.shape, sharding, **kwargs))


@source.api_boundary
def inspect_array_sharding(value: Any, *, callback: Callable[[Sharding], None]) -> None:
    """Call a function with the sharding of a value, within traced functions too.

    Args:
        value: a pytree of arrays.
        callback: the function. Within `jit` it is called at each call, once the value is there.

    >>> import veery, veery.numpy as jnp
    >>> inspect_array_sharding(jnp.ones(2), callback=print)
    SingleDeviceSharding(device=CpuDevice(id=0), memory_kind=device)
    """
    for leaf in tree.tree_leaves(value):
        inspect_sharding_p.bind(leaf, callback=callback)


def _impl(x: Any, *, callback: Callable[[Sharding], None]) -> list[Any]:
    callback(_dispatch.as_array(x).sharding)
    return []


def _within_a_program(x: Any, *, callback: Callable[[Sharding], None]) -> list[Any]:
    """In loops and branches, which one device runs."""
    debug_callback(lambda: callback(SingleDeviceSharding(_dispatch.default_device())))
    return []


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[list[Any], list[Any]]:
    return inspect_sharding_p.bind(primals[0], **params), []


inspect_sharding_p: Primitive = Primitive(
    "inspect_sharding",
    multiple_results=True,
    abstract_eval=lambda x, *, callback: [],
    effects=lambda x, *, callback: {DebugEffect()},
    impl=_impl,
    jvp=_jvp,
    batch=lambda args, dims, *, callback: (inspect_sharding_p.bind(args[0], callback=callback), []),
    composition=_within_a_program,
    reference=lambda x, *, callback: [],
    apart=lambda params: True,
)
