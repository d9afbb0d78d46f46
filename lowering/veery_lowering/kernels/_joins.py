"""What joins arrays or looks elements up, as one dispatch that writes each element once.

IREE copies each operand of a concatenation or padding to its place by a dispatch of its own, after it was computed, and
what is elementwise of the whole is another; it computes each number of an index by itself. Here the result is divided
into the parts that are computed in one way each, with all that is elementwise before and after, and with slices of the
result. us, on two cores, of float32, by IREE and so: a join, padding and slices of 1000x1000 990 and 140, three arrays
of 300x300 stacked 119 and 52, 10 elements of each of 1000 rows 58 and 11, 50 rows of 100 6.7 and 5.5.

Complex numbers are written and read as pairs of real ones (`_halves`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from veery_lowering import stablehlo as hlo
from veery_lowering.kernels import _indexed, _moves  # noqa: F401  (each registers what it writes)
from veery_lowering.kernels._arithmetic import ELEMENTWISE, Unfit, is_half
from veery_lowering.kernels._body import Body, checked
from veery_lowering.kernels._executable import Executable
from veery_lowering.kernels._forms import Buffer, Form, Lazy, View, half, nodes, whole
from veery_lowering.kernels._halves import IN_HALVES, is_complex, real_of
from veery_lowering.kernels._machine import Machine
from veery_lowering.kernels._nests import ALTERNATING
from veery_lowering.kernels._reading import integers, static_shape
from veery_lowering.kernels._windows import CHEAP, Opaque, Parts, Repeated, work_at, work_of
from veery_lowering.mlir import base_name, ir

JOINS = frozenset(("stablehlo.concatenate", "stablehlo.pad"))
ROOTS = JOINS | {"stablehlo.gather"}
_VIEWS = frozenset("broadcast_in_dim reshape reverse slice transpose".split())
# How much more may be computed because values are used at several places than if each were computed once.
_MOST_REPEATED = 1.5
# Operations and operands of all parts: what has more takes long to compile.
_MOST_NODES = 400
# Operations in a row, since what writes them calls itself for each, several times.
_MOST_IN_A_ROW = 100
# Where a kernel of fewer of them is not looked for: what is complex is computed in several otherwise.
_FEW_IN_A_ROW = 12
# Elements for which a workgroup is worth its start, and how many there are at most.
_LEAST_SHARE = 1 << 13
_MOST_WORKGROUPS = 64
# Elements from which on copies and dispatches that write to their place at once are not worth fewer dispatches.
_MANY = 1 << 14
# Elements from which on what is read backwards or by steps is worth a kernel.
_LEAST_CROSSED = 1 << 12
# Work with complex numbers, in operations, that is worth a kernel which computes them as pairs of real ones.
_LEAST_HALVED = 1 << 13


_NOTHING = "nothing is joined or looked up"
TOO_MANY = "many operations in many parts"


class TooLittle(Unfit):
    """Nothing is joined or looked up, and there is little to compute.

    Attributes:
        inside: the values that would be computed.
    """

    def __init__(self, inside: Sequence[Any]) -> None:
        super().__init__(_NOTHING)
        self.inside = inside


class JoinKernel:
    """A value that is joined of others as an executable.

    Args:
        root: the operation whose result is computed.
        places: the values that its block computes, with their order.
        machine: what it is written for.

    Raises:
        Unfit: it cannot be written so, or IREE writes it as well.
    """

    form = "in one piece"

    def __init__(self, root: Any, places: Mapping[Any, int], machine: Machine) -> None:
        self.root = root
        (self.result,) = root.results
        if not _fits(root):
            raise Unfit(root.name)
        shape, dtype = static_shape(self.result), hlo.dtype_of(self.result)
        size, is_pair = math.prod(shape), is_complex(self.result)
        if dtype.kind == "b" or size == 1:
            raise Unfit(f"{dtype} of shape {shape}")
        outside: set[Any] = set()
        in_a_row = _MOST_IN_A_ROW
        while True:
            self.inside = computed(root, places, outside, in_a_row)
            if not _moves_elements(self.inside) and _most_work(self.inside) + size < _LEAST_HALVED:
                raise TooLittle(self.inside)
            self.body, output = Body(machine), Buffer("%out", real_of(dtype), size << is_pair, is_pair)
            targets = [half(output, shape, part) for part in range(2)] if is_pair else [whole(output, shape)]
            try:
                written = Parts(self.body, set(self.inside)).of(self.result, *targets)
            except Opaque as opaque:
                outside.add(opaque.value)
                continue
            except Repeated:
                if not (repeated := self._repeated()):
                    raise Unfit(TOO_MANY) from None
                outside.update(repeated)
                continue
            groups = _alternating(written)
            repeated = self._repeated()
            work = sum(work_at(*(form for _, form in group)) * math.prod(group[0][0].shape) for group in groups)
            if repeated and work > _MOST_REPEATED * sum(map(work_of, self.inside)):
                outside.update(repeated)
            elif sum(len(nodes(*(form for _, form in group))) for group in groups) <= _MOST_NODES:
                break
            elif not is_halved(root) or in_a_row < _FEW_IN_A_ROW:
                raise Unfit(TOO_MANY)
            else:
                in_a_row //= 2
        made = {value.owner.name for value in self.inside}
        halved = work + size >= _LEAST_HALVED and any(is_halved(value.owner) for value in self.inside)
        if not _moves_elements(self.inside) and not halved:
            raise Unfit(_NOTHING)
        if is_pair and not halved:
            raise Unfit("complex numbers that are moved alone")
        if root.name in JOINS and "stablehlo.gather" not in made and all(place.is_contiguous for place, _ in written):
            computes = any(isinstance(form, Lazy) for _, form in written)
            given = not computes and all(isinstance(x.owner, ir.Block) for x in self.body.inputs)
            if not given and (size >= _MANY or not computes):
                raise Unfit("what IREE writes to its place")
        workgroups = max(1, min(size // _LEAST_SHARE, _MOST_WORKGROUPS))
        self.body.nests.divide(workgroups)
        for group in groups:
            if len(group) == 1:
                self.body.nests.fill(*group[0], size)
            else:
                self.body.nests.interleave(*zip(*group))
        self.output = output
        self.executable = Executable(self.body.out, self.body.inputs, [output], workgroups)

    def _repeated(self) -> list[Any]:
        """The values inside that are computed wherever they are used, at several places."""
        computed_here = [value for value in self.inside if base_name(value.owner.name) not in _READ]
        return [value for value in computed_here if value != self.result and len(_users(value)) > 1]

    def replace(self, module: Any, name: str) -> None:
        """Put a call of the kernel in the place of what it computes."""
        self.executable.call(module, name, self.root, {self.output: self.result})
        erase(self.inside)


def _moves_elements(values: Iterable[Any]) -> bool:
    """Whether what computes values joins, looks up, or reads many elements backwards or by steps."""
    return any(value.owner.name in ROOTS or is_crossed(value.owner) for value in values)


def _most_work(values: Sequence[Any]) -> float:
    """How much it may be, at most, to compute the first of some values by the others, where these are repeated."""
    size = math.prod(static_shape(values[0]))
    each = (work_of(value) * max(1, size / max(1, math.prod(static_shape(value)))) for value in values)
    return _MOST_REPEATED * sum(each)


def is_crossed(op: Any) -> bool:
    """Whether an operation reads many elements backwards or by steps, as IREE does one by one, a vector's at once."""
    name = base_name(op.name)
    if name not in ("reverse", "slice"):
        return False
    try:
        shape = static_shape(op.results[0])
    except Unfit:
        return False
    rows = [axis for axis, n in enumerate(shape) if n > 1]
    if math.prod(shape) < _LEAST_CROSSED or not rows:
        return False
    if name == "reverse":
        return rows[-1] in integers(op.attributes["dimensions"])
    return 1 < integers(op.attributes["strides"])[rows[-1]] <= ALTERNATING[-1]


def is_halved(op: Any) -> bool:
    """Whether an operation computes complex numbers, as IREE does one by one, or reads a half of them."""
    return base_name(op.name) in IN_HALVES and any(map(is_complex, (*op.operands, *op.results))) and _fits(op)


def _alternating(parts: Sequence[tuple[View, Form]]) -> list[list[tuple[View, Form]]]:
    """The parts in groups that fill adjacent elements in turn, in the order of these; those of all others are alone."""
    rest, groups = list(parts), []
    while rest:
        first = rest[0][0]
        same = [part for part in rest if (part[0].shape, part[0].strides) == (first.shape, first.strides)]
        same.sort(key=lambda part: part[0].offset.constant)
        offsets = [place.offset.constant for place, _ in same]
        apart = [s for n, s in zip(first.shape, first.strides) if n > 1]
        adjacent = offsets == list(range(offsets[0], offsets[0] + len(offsets)))
        group = same if len(same) in ALTERNATING and len(same) in apart and adjacent else [rest[0]]
        groups.append(group)
        rest = [part for part in rest if part not in group]
    return groups


def roots_of(join: Any, places: Mapping[Any, int]) -> list[Any]:
    """Operations up to which what is made of a join may be computed with it, the last one first."""
    roots = [join]
    while len(users := _users(roots[-1].results[0])) == 1 and _may_join(users, join):
        roots += users
    if is_halved(join):
        roots += _where_ways_meet(roots[-1], places)
    return list(dict.fromkeys([roots[-1], join]))


def _where_ways_meet(op: Any, places: Mapping[Any, int]) -> list[Any]:
    """The last operation on all ways from one, such as from the parts of a number to its modulus, if there is one."""
    found, rest = [], {op}
    for _ in range(_MOST_NODES):
        first = min(rest, key=lambda x: places.get(x.results[0], math.inf))
        rest.remove(first)
        if not rest:
            found = [first]
        users = _users(first.results[0])
        if not users or not _may_join(users, op):
            break
        rest |= users
    return found


def _may_join(users: set[Any], op: Any) -> bool:
    """Whether a kernel may compute operations with what they read, as it computes another one of their block."""
    return all(user.block == op.block and _is_written(user) for user in users)


def _is_written(op: Any) -> bool:
    """Whether a kernel may compute an operation with what it reads."""
    name = base_name(op.name)
    return (name in _COMPUTED or name in ("slice", "reverse", *_JOINED)) and _fits(op)


_JOINED = frozenset(map(base_name, JOINS))
_COMPUTED = ELEMENTWISE | IN_HALVES
# What costs nothing, wherever it is used.
_READ = _VIEWS | {"real", "imag"}


def erase(values: Iterable[Any]) -> None:
    """Erase what computes values, users first, where nothing uses them."""
    for op in dict.fromkeys(value.owner.operation for value in values):
        if not any(True for x in op.results for _ in x.uses):
            op.erase()


def computed(root: Any, places: Mapping[Any, int], outside: set[Any], in_a_row: int = _MOST_IN_A_ROW) -> list[Any]:
    """The values that a kernel computes: that of the root, and what nothing else reads; users come before."""
    depths = {root.results[0]: 0}
    rest = set(root.operands)
    while rest:
        value = max(rest, key=lambda x: places.get(x, -1))
        rest.remove(value)
        if value in places and value not in outside and _may_compute(value, depths):
            depth = 1 + max(depths.get(x, 0) for user in _users(value) for x in user.results)
            if depth < in_a_row:
                depths[value] = depth
                rest.update(value.owner.operands)
    return list(depths)


def _may_compute(value: Any, found: Collection[Any]) -> bool:
    """Whether a value is computed where it is used, all of its users being known."""
    op = value.owner
    name = base_name(op.name)
    if name == "optimization_barrier":  # between what is scattered and the scatter
        return all(user.name == "stablehlo.scatter" and user.results[0] in found for user in _users(value))
    if len(op.results) != 1 or hlo.is_constant(value) or not _fits(op):
        return False
    shape = static_shape(value)
    if name in _READ:
        return name != "transpose" or _keeps_rows(op) or math.prod(shape) < _MANY
    users = _users(value)
    if any(user.name == "stablehlo.gather" and user.operands[0] == value for user in users):
        return False  # it is read where it lies
    if not all(user.results and user.results[0] in found for user in users):
        return False
    if op.name not in ROOTS and name not in _COMPUTED:
        return False
    return name in CHEAP or math.prod(shape) == 1 or not any(map(_enlarges, users))


def _fits(op: Any) -> bool:
    """Whether a kernel can hold what an operation reads and gives: half precision where it is moved alone."""
    name = base_name(op.name)
    moves = name in _VIEWS or op.name in ROOTS
    if name == "bitcast_convert" and len(hlo.shape_of(op.operands[0])) != len(hlo.shape_of(op.results[0])):
        return False  # of one element several, or the other way round
    try:
        for x in (*op.results, *op.operands):
            if is_complex(x):
                if 0 in static_shape(x) or not (moves or name in IN_HALVES):
                    return False
            elif is_half(checked(x)[1]) and not (moves or name == "select"):
                return False
    except Unfit:
        return False
    return True


def _users(value: Any) -> set[Any]:
    return {use.owner.operation for use in value.uses}


def _enlarges(op: Any) -> bool:
    name = base_name(op.name)
    return name == "broadcast_in_dim" and static_shape(op.operands[0]) != static_shape(op.results[0])


def _keeps_rows(op: Any) -> bool:
    """Whether a transposition leaves the last axis where it is."""
    order = integers(op.attributes["permutation"])
    return order[-1] == len(order) - 1
