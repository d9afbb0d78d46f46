"""The tiles of dispatches for the CPU, where those that IREE 3.13 chooses make slow code.

IREE masks the last, narrower vector of a loop, and with it all others. What is worse, sums of masked vectors become
one addition for each element, in order, since `vp.reduce` has no permission to reassociate. So loops over what is
reduced are peeled instead: whole vectors, which are summed as trees, and a rest. Rows are reduced one at a time, by
eight registers at once; columns four registers at a time, each row of which is read once. Few columns are one vector,
where IREE has a workgroup of scalar code for each. IREE also divides rows and
columns among workgroups without regard for the width of vectors (25 rows for tiles of 8), whose rests are masked too.
What is computed element by element it divides into blocks of few columns (16 of 2000), where whole rows are written
and read faster, and into parts that do not divide the elements, so that all are masked: here they do, or a rest is
peeled. Products of few rows it makes in tiles of 8 by 16 with k masked. Here as many columns are taken as leave the
sums of all rows in registers, and one step of k at a time. Long columns are read in blocks, whose pages the processor
still knows when it reads what is beside them.

Measured on one core with AVX-512, in us, of float32, with IREE's tiles and with these:

| | IREE | here | | IREE | here |
|---|---|---|---|---|---|
| sums of 2000 rows of 1000 | 1070 | 338 | sums of 1000 columns of 2000 | 454 | 350 |
| of 1500 of 777 | 506 | 184 | largest of 777 columns of 1500 | 418 | 237 |
| of 1000 of 100 | 71 | 21 | 777x777 by a vector | 273 | 98 |
| of 5000 of 20 | 91 | 29 | a vector by 777x555 | 97 | 62 |
| logsumexp of 2000 of 1000 | 2716 | 974 | dot of 1000001 | 1132 | 331 |
| softmax of 1000 of 100 | 207 | 75 | outer product of 1500 and 2000 | 601 | 492 |
| 3000x700 and a row of 700 | 732 | 646 | twice 1000x1000 side by side | 802 | 662 |
| 16x3000 by 3000x3000 | 18301 | 6369 | 23x500 by 500x1001 | 1860 | 363 |
| 24x1000 by 1000x333 | 461 | 169 | 8x500 by 500x1000 | 270 | 140 |
| sums of 10 columns of 10000 | 87 | 13 | squares of 1000 columns of 300 | 203 | 22 |
| exp of 100000 | 43 | 35 | exp(x + row), 1000x100 | 51 | 40 |

and on two cores with AVX2, columns by four registers and in blocks: sums of 2048x2048 1140 and 445, of 8192x1024 2387
and 1295, largest of 2048x2048 1588 and 395, of 3000x3000 7069 and 5480 (JAX 0.10.2: 581, 1303, 280, 1372).

A compilation takes 0.9 of the time (a softmax 0.22 to 0.17 s) but where a rest of several rows is peeled: a logsumexp
of rows of 33 takes 0.30 instead of 0.27 s, a product of 23 rows 0.22 instead of 0.13.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from veery_lowering.mlir import ir, maker, operations

PHASE = "executable-configurations"  # of IREE's standard pipeline, after which there are tiles
LATER = ("executable-targets", "hal", "vm")

TRANSLATION = "translation_info"
_CONFIG = "lowering_config"
_PIPELINE = "#iree_cpu.pipeline<DoubleTilingExpert>"
_PIPELINES = (_PIPELINE, "#iree_cpu.pipeline<BufferOpsTileAndVectorize>")
_LEVEL = re.compile(r"(\w+) = \[([\d, ]*)\]")
_REGISTER = re.compile(r"native_vector_size = (\d+) : i64")
_MANY = 1 << 40  # stands for a size that is not known

# How named operations read their operands; generic ones say it themselves.
_PLACES = {
    "linalg.dot": [[0], [0], []],
    "linalg.matvec": [[0, 1], [1], [0]],
    "linalg.vecmat": [[1], [1, 0], [0]],
}
# How many steps of k a product's loop holds, where IREE takes 16: a quarter of the code to compile, 84 instead of 118
# ms for 128x256 by 256x10. With rests of tiles, which are peeled off, or of vectors it would cost time at run time:
# 50x50 by 50x50 takes 13 us with 16 steps, 26 with 4, and so does 256x35 by 35x10 of float64, but not of float32.
_STEPS = 4
_WHOLE = 8
_UNWIDENED = 4  # bytes of elements that are not computed with in wider ones
_STEPS_OF_K = re.compile(r"(vector_reduction = \[0, 0, (?:0, )?)(\d+)\]")

_PRODUCTS = ("linalg.matmul", "linalg.batch_matmul")
_FEW = 27  # rows; of more, the operands are copied into tiles (targets/tiling.py)
_PAGES = 1024  # rows, whose pages the processor still knows when it reads their next columns
_PAGE = 4096  # bytes
_COLUMNS = 512  # that one workgroup reduces of rows of more pages
_AVX2 = 32  # bytes of a register
_MOST_OF_A_ROW = 4096  # elements that one workgroup takes
_WIDE = 64  # elements
_LEAST_PEELED = 1 << 16  # elements for which a loop without masks is worth the compilation of its rest

Levels = dict[str, list[int]]
_OF_ROOTS = {"distribution", "vector_common_parallel", "vector_reduction"}


class Loops(NamedTuple):
    """The loops of an operation.

    Attributes:
        lengths: of each.
        places: for each operand, which loop each of its axes is.
        streams: the operands that are read once, by all loops: which loop each of their axes is.
        reduced: the loops that are reduced.
    """

    lengths: list[int]
    places: list[list[int]]
    streams: list[list[int]]
    reduced: set[int]


def choose_tiles(module: ir.Module) -> None:
    """Change the tiles that IREE has chosen, in place; before dispatches are translated."""
    for function, register in functions(module):
        _choose(function, register)


def unroll_less(module: ir.Module) -> None:
    """Have loops hold less code, where that takes nothing from their speed, in place; before they are translated."""
    for variant, register in _variants(module):
        for op in operations(variant):
            if _CONFIG in op.attributes and len(op.operands):
                if op.name == "linalg.pack":
                    _pack_less(op)
                else:
                    _take_fewer_steps(op, register)


def _take_fewer_steps(op: Any, register: int) -> None:
    """Have a product's loop take few steps of k at a time, where tiles leave no rest, of which there would be more."""
    text, loops = str(op.attributes[_CONFIG]), _loops(op)
    taken = _STEPS_OF_K.search(text)
    if not taken or int(taken[2]) <= _STEPS or loops is None or loops.streams:  # a sum reads each element once
        return
    levels = levels_of(op)
    k = next(i for i, n in enumerate(levels["vector_reduction"]) if n)
    if _is_whole(op) or _are_vectors(levels.get("vector_common_parallel", []), loops, _width(op), register):
        steps = max(n for n in range(1, _STEPS + 1) if loops.lengths[k] % n == 0)
        op.attributes[_CONFIG] = ir.Attribute.parse(text.replace(taken[0], f"{taken[1]}{steps}]"))


def _are_vectors(tiles: list[int], loops: Loops, width: int, register: int) -> bool:
    """Whether the tiles of a product's result are whole vectors, or one that has all columns, and leave no rest."""
    columns = loops.places[-1][-1]
    n, taken = loops.lengths[columns], dict(enumerate(tiles)).get(columns, 0)
    if width < _UNWIDENED or not taken or not (taken % (register // width) == 0 or taken == n <= register // width):
        return False
    return all(n < _MANY and n % tile == 0 for n, tile in zip(loops.lengths, tiles) if tile)


def _pack_less(op: Any) -> None:
    """Copy one tile at a time, if its rows are vectors, where IREE's loop holds as many as a vector has elements.

    Those of 16x16 took 200 ms to compile, as long as three products.
    """
    levels, (*_, columns) = levels_of(op), op.attributes["static_inner_tiles"]
    if "vector_common_parallel" in levels and columns > 1:
        _set(op, levels | {"vector_common_parallel": [1] * len(levels["vector_common_parallel"])})


def _is_whole(op: Any) -> bool:
    types = [ir.RankedTensorType(x.type) for x in op.operands if isinstance(x.type, ir.RankedTensorType)]
    return all(type_.has_static_shape and all(n % _WHOLE == 0 for n in type_.shape[-2:]) for type_ in types)


def functions(module: ir.Module) -> Iterator[tuple[Any, int]]:
    """The functions of dispatches for the CPU that have tiles, and how many bytes a register has."""
    for variant, register in _variants(module):
        for op in operations(variant):
            if op.name == "func.func" and TRANSLATION in op.attributes:
                if any(pipeline in str(op.attributes[TRANSLATION]) for pipeline in _PIPELINES):
                    yield op, register


def _variants(module: ir.Module) -> Iterator[tuple[Any, int]]:
    """The code of dispatches for the CPU, and how many bytes a register has."""
    executables = [op.operation for op in module.body.operations if op.operation.name == "hal.executable"]
    for variant in [op.operation for x in executables for op in x.regions[0].blocks[0].operations]:
        if variant.name == "hal.executable.variant":
            register = _REGISTER.search(str(variant.attributes["target"]))
            if register:
                yield variant, int(register[1])


def _choose(function: Any, register: int) -> None:
    configured = [op for op in operations(function) if _CONFIG in op.attributes]
    roots = [op for op in configured if "distribution" in levels_of(op)]
    if len(roots) != 1 or not set(levels_of(roots[0])) <= _OF_ROOTS:
        return
    (root,) = roots
    loops, width = _loops(root), _width(root)
    if loops is None or not width:
        return
    lanes = register // width
    if root.name in _PRODUCTS:
        _by_few_rows(function, configured, root, loops, lanes)
    elif not loops.reduced:
        _by_whole_rows(configured, root, loops)
        _by_whole_vectors(function, root, loops)
    elif loops.streams:
        last = {axes[-1] for axes in loops.streams}
        if len(last) == 1 and last <= loops.reduced:
            _by_rows(function, configured, root, loops, lanes)
        elif len(last) == 1 and last.isdisjoint(loops.reduced):
            _by_columns(configured, root, loops, lanes)


def _by_rows(function: Any, configured: list[Any], root: Any, loops: Loops, lanes: int) -> None:
    """Reduce what lies in rows: short rows several at a time, so that what is made of each is done in vectors."""
    along = loops.streams[0][-1]
    length = loops.lengths[along]
    rows, taken = (8, lanes) if length <= lanes else (4, 2 * lanes) if length < 3 * lanes else (1, 8 * lanes)
    for op in configured:
        levels = levels_of(op)
        if "vector_common_parallel" in levels:
            levels["vector_common_parallel"] = [min(n, rows) for n in levels["vector_common_parallel"]]
        for name in ("vector_reduction", "vector_inner_parallel"):
            if name in levels:
                levels[name] = [taken if n == max(levels[name]) else n for n in levels[name]]
        if op == root:
            _divide(levels, loops)
        _set(op, levels)
    _peel(function)


def _by_columns(configured: list[Any], root: Any, loops: Loops, lanes: int) -> None:
    """Reduce along other axes than the last, along which there are vectors."""
    along = loops.streams[0][-1]
    length = loops.lengths[along]
    old = levels_of(root).get("vector_common_parallel", [0] * (along + 1))[along]
    taken = 4 * lanes if length >= 8 * lanes else min(length, lanes)
    if not old:
        return
    blocks = _blocks_of_rows(loops, along, _width(root)) if _is_alone(root, configured) else []
    for op in configured:
        levels = levels_of(op)
        tiles = levels.get("vector_common_parallel", [])
        if tiles and tiles[-1 if op != root else along] == old:
            tiles[-1 if op != root else along] = taken
        if op == root:
            levels["vector_reduction"] = [min(n, 1) for n in levels["vector_reduction"]]
            levels["distribution"][along] = max(levels["distribution"][along], taken)
            if blocks:
                levels["distribution"][along] = min(length, _COLUMNS)
                levels["cache_reduction"] = blocks
            _divide(levels, loops)
        _set(op, levels)
        _keep_in_vectors(op)


def _is_alone(root: Any, configured: list[Any]) -> bool:
    """Whether nothing but what it begins with is computed beside an operation."""
    return all(op == root or op.name == "linalg.fill" for op in configured)


def _blocks_of_rows(loops: Loops, along: int, width: int) -> list[int]:
    """How many rows to reduce before going on to the next columns, where there are more pages than are known."""
    if len(loops.reduced) > 1:
        return []
    (across,) = loops.reduced
    rows = loops.lengths[across]
    if not (_PAGES < rows < _MANY and _PAGE <= loops.lengths[along] * width < _MANY):
        return []
    taken = max((n for n in range(4, 9) if rows % n == 0), default=0)
    return [taken * (i == across) for i in range(len(loops.lengths))] if taken else []


def _keep_in_vectors(op: Any) -> None:
    """Have products be added up as other values are: of sums of products IREE makes scalar code, column by column.

    A zero comes between, which changes nothing where sums begin with one.
    """
    if op.name != "linalg.generic" or maker(op.operands[-1]) != "linalg.fill":
        return
    start = op.operands[-1].owner.operands[0]
    if maker(start) != "arith.constant" or not str(start.owner.attributes["value"]).startswith("0.0"):
        return
    for inner in list(op.regions[0].blocks[0].operations):
        if inner.operation.name != "arith.addf":
            continue
        for i, x in enumerate(inner.operands):
            if maker(x) == "arith.mulf":
                with ir.InsertionPoint(inner), inner.location:
                    zero = ir.FloatAttr.get(x.type, 0.0)
                    made = ir.Operation.create("arith.constant", [x.type], attributes={"value": zero}).results[0]
                    inner.operands[i] = ir.Operation.create("arith.addf", [x.type], [x, made]).results[0]


def _by_few_rows(function: Any, configured: list[Any], root: Any, loops: Loops, lanes: int) -> None:
    """Multiply few rows by a matrix, whose rows are read once: their sums stay in registers, and k is not masked."""
    *_, (*_, k, along), (*_, rows, columns) = loops.places
    m, n = loops.lengths[rows], loops.lengths[columns]
    if (
        not {"vector_common_parallel", "vector_reduction"} <= set(levels_of(root))
        or not all(op == root or _follows(op, len(loops.places[-1])) for op in configured)
        or m > _FEW
        or n < 4 * lanes
        or along != columns
        or len({str(x.type.element_type) for x in root.operands}) > 1
    ):
        return
    is_long = _PAGES < loops.lengths[k] < _MANY
    blocks = [size for size in range(64, 257) if is_long and loops.lengths[k] % size == 0]
    wide = 4 if blocks else 2  # registers
    most = (28 if lanes * _width(root) > _AVX2 else 12) // wide  # of 32 or of 16
    whole = [tile for tile in range(most // 3, most + 1) if m % tile == 0]
    tile = m if m <= most else max(whole, default=-(-m // -(-m // most)))
    for op in configured:
        levels = levels_of(op)
        tiles = levels["vector_common_parallel"]
        i, j = (rows, columns) if op == root else (len(tiles) - 2, len(tiles) - 1)
        tiles[i], tiles[j] = tile, wide * lanes
        if op == root:
            levels["vector_reduction"] = [min(size, 1) for size in levels["vector_reduction"]]
            levels["distribution"][rows], levels["distribution"][columns] = m, 4 * wide * lanes
            _divide(levels, loops)
            if blocks:
                levels["cache_reduction"] = [max(blocks) if i == k else 0 for i in range(len(loops.lengths))]
        _set(op, levels)
    if m % tile:
        _peel(function)


def _follows(op: Any, rank: int) -> bool:
    """Whether an operation fills what another one sums up, or computes each element from that element of it."""
    if "vector_common_parallel" not in levels_of(op):
        return False
    if op.name == "linalg.fill":
        return bool(ir.ShapedType(op.results[0].type).rank == rank)
    loops = _loops(op) if op.name == "linalg.generic" else None
    return (
        loops is not None
        and not loops.reduced
        and len(loops.lengths) == rank
        and all(axes == sorted(axes) for axes in loops.places)
    )


def _by_whole_rows(configured: list[Any], root: Any, loops: Loops) -> None:
    """Have workgroups write what lies together, where all that is read lies so, too."""
    levels = levels_of(root)
    tiles, last = levels["distribution"], len(loops.lengths) - 1
    in_vectors = not any(n > 1 for n in levels.get("vector_common_parallel", [])[:last])
    if (
        last < 1
        or 0 in tiles
        or not _is_in_order(loops)
        or not in_vectors
        or {op.name for op in configured} != {"linalg.generic"}
    ):
        return
    left = math.prod(tiles)
    tiles[last] = min(loops.lengths[last], max(tiles[last], _MOST_OF_A_ROW))
    for i in reversed(range(last)):
        left = max(1, left // tiles[i + 1])
        tiles[i] = min(loops.lengths[i], left)
    _set(root, levels)


def _is_in_order(loops: Loops) -> bool:
    """Whether nothing is read or written transposed."""
    return all(axes == sorted(axes) for axes in loops.places)


def _is_wide(loops: Loops) -> bool:
    """Whether what is transposed has whole vectors each way: of 4 rows of 14 float32, a rest, LLVM makes wrong code."""
    return min(loops.lengths) >= _WIDE


def _by_whole_vectors(function: Any, root: Any, loops: Loops) -> None:
    """Have workgroups compute whole vectors, without masks: as many as all can have, or those and a rest."""
    levels, last = levels_of(root), len(loops.lengths) - 1
    tiles, vectors = levels["distribution"], levels.get("vector_common_parallel", [])
    if last < 0 or not tiles[last] or not vectors or vectors[last] < 2:
        return
    length, taken, lanes = loops.lengths[last], tiles[last], vectors[last]
    whole = [n for n in range(taken // 2 // lanes * lanes, 2 * taken, lanes) if n and length % n == 0]
    if whole:
        tiles[last] = min(whole, key=lambda n: abs(n - taken))
        _set(root, levels)
    elif length > lanes and math.prod(loops.lengths) >= _LEAST_PEELED and (_is_in_order(loops) or _is_wide(loops)):
        _peel(function)


def _divide(levels: Levels, loops: Loops) -> None:
    """Have workgroups take whole tiles."""
    tiles = levels.get("vector_common_parallel", [])
    levels["distribution"] = [
        min(-(-n // tile) * tile, loops.lengths[i]) if n and tile else n
        for i, (n, tile) in enumerate(zip(levels["distribution"], tiles or levels["distribution"]))
    ]


def levels_of(op: Any) -> Levels:
    """The tiles of an operation at each level, those of its loops; none where it has none."""
    if _CONFIG not in op.attributes:
        return {}
    return {
        name: [int(n) for n in tiles.split(",") if n.strip()]
        for name, tiles in _LEVEL.findall(str(op.attributes[_CONFIG]))
    }


def _set(op: Any, levels: Levels) -> None:
    text = ", ".join(f"{name} = {tiles}" for name, tiles in levels.items())
    op.attributes[_CONFIG] = ir.Attribute.parse(f"#iree_cpu.lowering_config<{text}>")


def _peel(function: Any) -> None:
    text = str(function.attributes[TRANSLATION])
    if "enable_loop_peeling" not in text:
        peeled = text.replace(_PIPELINE, f"{_PIPELINE}, {{enable_loop_peeling}}")
        function.attributes[TRANSLATION] = ir.Attribute.parse(peeled)


def _loops(op: Any) -> Loops | None:
    """The loops of an operation; None where operands are not read along axes alone."""
    places = _PLACES.get(op.name) or _mapped(op)
    if places is None:
        return None
    count = op.attributes["operandSegmentSizes"][0]
    lengths: dict[int, int] = {}
    for x, axes in zip(op.operands, places, strict=True):
        found = ir.ShapedType(x.type).shape if isinstance(x.type, ir.ShapedType) else []
        lengths |= {axis: _MANY if n < 0 else n for axis, n in zip(axes, found, strict=True)}
    streams = [axes for axes in places[:count] if len(axes) == len(lengths)]
    written = {axis for axes in places[count:] for axis in axes}
    return Loops([lengths[i] for i in range(len(lengths))], places, streams, set(lengths) - written)


def _mapped(op: Any) -> list[list[int]] | None:
    if "indexing_maps" not in op.attributes:
        return None
    places = [attribute.value.results for attribute in op.attributes["indexing_maps"]]
    if not all(isinstance(expr, ir.AffineDimExpr) for exprs in places for expr in exprs):
        return None
    return [[expr.position for expr in exprs] for exprs in places]


def _width(op: Any) -> int:
    """How many bytes the widest elements have; 0 where some are neither floats nor integers."""
    kinds = [x.type.element_type if isinstance(x.type, ir.ShapedType) else x.type for x in op.operands]
    if not all(isinstance(kind, ir.FloatType | ir.IntegerType) for kind in kinds):
        return 0
    return int(max(math.ceil(kind.width / 8) for kind in kinds))
