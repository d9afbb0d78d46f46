"""What dispatches of IREE's make of the memory that they write: whether that may be memory that they read."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

_LOAD, _STORE = (f"iree_tensor_ext.dispatch.tensor.{name}" for name in ("load", "store"))


def is_elementwise(kernel: Any, read: Collection[int], written: Collection[int]) -> bool:
    """Whether a dispatch makes each element of what it writes of the same element of some memory, and of other memory.

    Args:
        kernel: its function.
        read, written: the numbers of the bindings.
    """
    loads: list[Any] = []
    stores: list[Any] = []
    for bindings, found, kind in ((read, loads, _LOAD), (written, stores, _STORE)):
        for op in _accesses(kernel, bindings):
            if op.name == kind:
                found.append(op)
            elif set(read) != set(written) or op.name not in (_LOAD, _STORE):
                return False
    makers = {store.operands[0].owner.operation for store in stores}
    if len(makers) != 1:
        return False
    (maker,) = makers
    return not loads or all(_reads_in_place(use, maker) for load in loads for use in load.results[0].uses)


def _accesses(kernel: Any, bindings: Collection[int]) -> Iterator[Any]:
    """What reads or writes memory that a dispatch is bound to."""
    given = [x for x in kernel.regions[0].blocks[0].arguments if str(x.type) == "!stream.binding"]
    for i in bindings:
        for use in given[i].uses:
            for access in use.owner.operation.results[0].uses:
                yield access.owner.operation


def _reads_in_place(use: Any, maker: Any) -> bool:
    """Whether a value is read by an operation only where its results are written."""
    if use.owner.operation != maker or maker.name != "linalg.generic":
        return False
    if any("parallel" not in str(kind) for kind in maker.attributes["iterator_types"]):
        return False
    maps = list(maker.attributes["indexing_maps"])
    outputs = maps[-len(maker.results) :]
    return all(each == maps[use.operand_number] for each in outputs)
