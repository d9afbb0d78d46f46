"""Rewrites a module for GPUs that are programmed by SPIR-V shaders, whose drivers do not compute what is written.

Drivers may treat floating-point expressions as real ones: Mesa makes x of (x + c) - c, so that rounding by a large
constant and the compensations of exact arithmetic are lost. And llvmpipe ends the loops of a shader after 65535
rounds in all, without a word: a sum of 2**20 ones is 65535.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.mlir import ir, maker
from veery_lowering.passes.stablehlo.barriers import bar_operand, behind_barrier
from veery_lowering.stablehlo import Value
from veery_lowering.stablehlo._build import pairs
from veery_lowering.types import is_static

# A reduction goes on in one invocation up to here; a longer one, or one of unknown length, is done in stages.
_LONGEST_REDUCTION = 4096
_REDUCTION_STAGE = 256
_LONGEST_CONTRACTION = 1 << 15
_CONTRACTION_STAGE = 1 << 10
_MOST_UPDATES = 1 << 14

_BROADCASTING = (
    "stablehlo.broadcast_in_dim",
    "stablehlo.dynamic_broadcast_in_dim",
    "stablehlo.select",
    "stablehlo.clamp",
    "stablehlo.pad",
)
_SUMS = ("stablehlo.add", "stablehlo.subtract")
_FLOATS = {np.dtype(np.float16): np.uint16, np.dtype(np.float32): np.uint32, np.dtype(np.float64): np.uint64}


def prepare_for_shaders(module: ir.Module) -> None:
    """Rewrite a module in place so that the usual drivers compute it rightly."""
    operations = _operations(module)
    for operation in operations:
        rewrite = _REWRITES.get(operation.name)
        if rewrite is not None:
            with ir.InsertionPoint(operation), operation.location:
                rewrite(operation)
    _end_dispatches_after_reductions(module)
    _end_dispatches_before_wide_broadcasts(module)
    if any(operation.name == "stablehlo.reduce" for operation in _operations(module)):
        _materialize_positions(module)
        _multiply_for_negations(module)
    _keep_roundings(module)
    _separate_loops(module)


def _operations(module: ir.Module) -> list[Any]:
    found: list[Any] = []

    def visit(op: Any) -> ir.WalkResult:
        found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def _count(sizes: Sequence[Any]) -> float:
    """How many elements there are at most."""
    return math.prod(size if is_static(size) else math.inf for size in sizes)


def _replace(operation: Any, values: Sequence[Value]) -> None:
    for old, new in zip(operation.results, values):
        old.replace_all_uses_with(new)
    operation.erase()


# Loops.


def _split_reduction(operation: Any) -> None:
    count = len(operation.results)
    operands, inits = list(operation.operands)[:count], list(operation.operands)[count:]
    axes = list(ir.DenseI64ArrayAttr(operation.attributes["dimensions"]))
    extreme = _extreme_of(operation)
    if extreme is not None and hlo.dtype_of(operands[0]).kind == "i":
        lifted = [_exchange_signedness(x) for x in (*operands, *inits)]
        folded = _reduce_in_stages(lifted[:1], lifted[1:], axes, lambda x, y: [extreme(x, y)])
        _replace(operation, [_exchange_signedness(x) for x in folded])
    elif _count([hlo.shape_of(operands[0])[axis] for axis in axes]) > _LONGEST_REDUCTION:
        _replace(operation, _reduce_in_stages(operands, inits, axes, _body_of(operation)))


def _extreme_of(operation: Any) -> Callable[[Value, Value], Value] | None:
    """The builder of a reduction's body if that is a minimum or a maximum."""
    first = operation.regions[0].blocks[0].operations[0].operation
    builder = {"stablehlo.minimum": hlo.minimum, "stablehlo.maximum": hlo.maximum}.get(first.name)
    return builder if len(operation.results) == 1 and len(operation.regions[0].blocks[0].operations) == 2 else None


def _exchange_signedness(x: Value) -> Value:
    """Between signed and unsigned integers in an order-preserving way.

    IREE fills the idle invocations of a reduction to a signed extreme with the neutral element of the unsigned one:
    the minimum of 24 positive numbers is -1 with subgroups of 8.
    """
    dtype = hlo.dtype_of(x)
    unsigned = np.dtype(f"u{dtype.itemsize}")
    top = 1 << (8 * dtype.itemsize - 1)
    if dtype.kind == "i":
        bits = hlo.bitcast_convert(x, unsigned)
        return hlo.xor(bits, hlo.full_like(bits, top))
    return hlo.bitcast_convert(hlo.xor(x, hlo.full_like(x, top)), np.dtype(f"i{dtype.itemsize}"))


def _reduce_in_stages(
    operands: list[Value], inits: Sequence[Value], axes: Sequence[int], body: Callable[..., list[Value]]
) -> list[Value]:
    """Fold parts of the longest axis first, until what is left is short."""
    shape = hlo.shape_of(operands[0])
    total = math.prod(shape[axis] for axis in axes if is_static(shape[axis]))
    unknown = [axis for axis in axes if not is_static(shape[axis])]
    if 0 in shape or (total <= _LONGEST_REDUCTION and not unknown):
        return hlo.reduce(operands, inits, axes, body)
    if unknown:
        return _reduce_unknown(operands, inits, axes, unknown[0], body)
    axis = max(axes, key=lambda a: shape[a])
    part = min(1024, max(2, 1 << math.ceil(math.log2(math.isqrt(total)))))
    if part >= shape[axis]:
        folded = hlo.reduce(operands, inits, [axis], body)
        return _reduce_in_stages(folded, inits, [a - (a > axis) for a in axes if a != axis], body)
    split = [_split_axis(x, axis, part, init) for x, init in zip(operands, inits)]
    return _reduce_in_stages(hlo.reduce(split, inits, [axis + 1], body), inits, axes, body)


def _reduce_unknown(
    operands: list[Value], inits: Sequence[Value], axes: Sequence[int], axis: int, body: Callable[..., list[Value]]
) -> list[Value]:
    """Fold an axis of unknown size in two stages, the other axes in the first of them."""
    split = [hlo.split_axis(x, axis, _REDUCTION_STAGE, init) for x, init in zip(operands, inits)]
    others = [a + (a > axis) for a in axes if a != axis]
    folded = _reduce_in_stages(split, inits, [axis + 1, *others], body)
    return hlo.reduce(folded, inits, [axis - sum(a < axis for a in others)], body)


def _split_axis(x: Value, axis: int, part: int, padding: Value) -> Value:
    """[..., n, ...] as [..., ceil(n / part), part, ...], filled up with `padding`."""
    shape = hlo.shape_of(x)
    if not all(map(is_static, shape)):
        return hlo.split_axis(x, axis, part, padding)
    parts = -(-shape[axis] // part)
    missing = parts * part - shape[axis]
    if missing:
        zeros = [0] * len(shape)
        x = hlo.pad(x, padding, zeros, [missing if i == axis else 0 for i in range(len(shape))], zeros)
    return hlo.reshape(x, (*shape[:axis], parts, part, *shape[axis + 1 :]))


def _body_of(operation: Any) -> Callable[..., list[Value]]:
    """The body of a reduction as a function that writes a copy of it."""
    block = operation.regions[0].blocks[0]

    def body(*arguments: Value) -> list[Value]:
        values = dict(zip(block.arguments, arguments))
        for original in block.operations:
            here = [values.get(x, x) for x in original.operation.operands]
            if original.operation.name == "stablehlo.return":
                return here
            copy = original.operation.clone()
            for i, x in enumerate(here):
                copy.operands[i] = x
            values.update(zip(original.operation.results, copy.results))
        raise AssertionError("a reduction's body returns")

    return body


def _split_contraction(operation: Any) -> None:
    a, b = operation.operands
    batch, contracting = hlo.product_axes(operation, "batching"), hlo.product_axes(operation, "contracting")
    shape = hlo.shape_of(a)
    if _count([shape[axis] for axis in contracting[0]]) <= _LONGEST_CONTRACTION:
        return
    if not all(is_static(shape[axis]) for axis in contracting[0]):  # there is one contracted axis then
        (left,), (right,) = contracting
        # The loop reads arrays: of what it would compute in turn it frees what is not its own ("queue_dealloca").
        a, b = hlo.optimization_barrier([a, b])

        def product(start: Any, size: Any) -> Value:
            sides = _part(a, left, start, size), _part(b, right, start, size)
            dtype = hlo.dtype_of(operation.results[0])
            return hlo.dot_general(*sides, contracting=contracting, batch=batch, dtype=dtype)

        return _replace(operation, [_sum_of_parts(product, shape[left], _LONGEST_CONTRACTION)])
    longest = max(range(len(contracting[0])), key=lambda i: shape[contracting[0][i]])
    sides, batches, rests = [], [], []
    for x, own, shared in zip((a, b), contracting, batch):
        axis = own[longest]
        sides.append(_split_axis(x, axis, _CONTRACTION_STAGE, hlo.full(0, (), hlo.dtype_of(x))))
        batches.append([*(i + (i > axis) for i in shared), axis])
        rests.append([i + (i >= axis) for i in own])
    dtype = hlo.dtype_of(operation.results[0])
    product = hlo.dot_general(*sides, contracting=(rests[0], rests[1]), batch=(batches[0], batches[1]), dtype=dtype)
    zero = hlo.full(0, (), dtype)
    total = _reduce_in_stages([product], [zero], [len(batches[0]) - 1], lambda x, y: [hlo.add(x, y)])
    _replace(operation, total)


def _part(x: Value, axis: int, start: Any, size: Any) -> Value:
    shape = hlo.shape_of(x)
    starts, sizes = [0] * len(shape), list(shape)
    starts[axis], sizes[axis] = start, size
    return hlo.extract_slice(x, starts, sizes, [1] * len(shape))


def _sum_of_parts(term: Callable[[Any, Any], Value], length: Any, part: int) -> Value:
    """The sum of what `term` makes of the parts of a length that is known at run time, from their starts and sizes."""
    limit, step = hlo.scalar_of_size(length, np.int32), hlo.constant(np.int32(part))

    def add(start: Value, total: Value) -> list[Value]:
        at = hlo.Index.of_scalar(start)
        return [hlo.add(start, step), hlo.add(total, term(at, (hlo.Index.of(length) - at).min(part)))]

    first = term(0, hlo.Index.of(length).min(part))
    _, total = hlo.while_([step, first], lambda start, _: hlo.compare(start, limit, "LT"), add)
    return total


def _split_convolution(operation: Any) -> None:
    """Sum convolutions with parts of a long kernel: it is as long as the images in the derivative by the kernel.

    Features are last and kernels not reversed, as the rule writes it.
    """
    lhs, rhs = operation.operands
    shape = hlo.shape_of(rhs)
    if _count(shape[:-1]) <= _LONGEST_CONTRACTION:
        return
    if not all(map(is_static, shape[:-2])):
        return
    pieces = [(lhs, rhs, ir.DenseElementsAttr(operation.attributes["padding"]))]
    for axis in range(len(shape) - 2):
        if math.prod(shape[:-2]) > _LONGEST_CONTRACTION:
            pieces = [part for piece in pieces for part in _split_window(operation, *piece, axis)]
    grouped = any(
        ir.IntegerAttr(operation.attributes[f"{kind}_group_count"]).value > 1 for kind in ("feature", "batch")
    )
    if not grouped:
        pieces = [part for piece in pieces for part in _split_features(*piece)]
    total = None
    for piece in pieces:
        result = _convolved(operation, *piece)
        total = result if total is None else hlo.add(total, result)
    assert total is not None
    _replace(operation, [total])


def _convolved(operation: Any, lhs: Value, rhs: Value, padding: Any) -> Value:
    """The convolution of parts of the operands; those of a symbolic number of features are summed in a loop."""
    features = len(hlo.shape_of(rhs)) - 2

    def convolve(left: Value, right: Value) -> Value:
        copy = operation.clone()
        copy.operands[0], copy.operands[1] = left, right
        copy.attributes["padding"] = padding
        return copy.results[0]

    count = hlo.shape_of(rhs)[features]
    if is_static(count):
        return convolve(lhs, rhs)
    last = len(hlo.shape_of(lhs)) - 1
    term = lambda start, size: convolve(_part(lhs, last, start, size), _part(rhs, features, start, size))
    return _sum_of_parts(term, count, max(1, _LONGEST_CONTRACTION // math.prod(hlo.shape_of(rhs)[:features])))


def _split_window(operation: Any, lhs: Value, rhs: Value, padding: Any, axis: int) -> list[tuple[Value, Value, Any]]:
    """Parts of the kernel along a spatial axis; each sees the image shifted, by padding that may be negative."""
    shape = hlo.shape_of(rhs)
    dilation = list(ir.DenseI64ArrayAttr(operation.attributes["rhs_dilation"]))[axis]
    width = max(1, _LONGEST_CONTRACTION * shape[axis] // math.prod(shape[:-2]))
    if width >= shape[axis]:
        return [(lhs, rhs, padding)]
    parts = []
    for start in range(0, shape[axis], width):
        stop = min(start + width, shape[axis])
        shifted = np.array(padding).copy()
        shifted[axis] -= (start * dilation, (shape[axis] - stop) * dilation)
        parts.append((lhs, _slice_axis(rhs, axis, start, stop), pairs(shifted.tolist())))
    return parts


def _split_features(lhs: Value, rhs: Value, padding: Any) -> list[tuple[Value, Value, Any]]:
    shape, axis = hlo.shape_of(rhs), len(hlo.shape_of(lhs)) - 1
    if not is_static(shape[-2]):
        return [(lhs, rhs, padding)]
    width = max(1, _LONGEST_CONTRACTION // math.prod(shape[:-2]))
    parts = []
    for start in range(0, shape[-2], width):
        stop = min(start + width, shape[-2])
        left, right = _slice_axis(lhs, axis, start, stop), _slice_axis(rhs, len(shape) - 2, start, stop)
        parts.append((left, right, padding))
    return parts


def _slice_axis(x: Value, axis: int, start: int, stop: int) -> Value:
    shape = hlo.shape_of(x)
    starts = [start if i == axis else 0 for i in range(len(shape))]
    return hlo.slice(x, starts, [stop if i == axis else n for i, n in enumerate(shape)])


def _split_scatter(operation: Any) -> None:
    """The updates of a scatter of rows (as the rules write it), which one invocation does in order, by parts."""
    rows, points, updates = operation.operands
    count, row = hlo.shape_of(updates)
    part = max(1, _MOST_UPDATES // row) if is_static(row) else 1
    if is_static(count) and is_static(row) and count <= part:
        return
    body = _body_of(operation)
    unique = ir.BoolAttr(operation.attributes["unique_indices"]).value

    def write(into: Value, where: Value, what: Value) -> Value:
        (result,) = hlo.scatter(
            [into],
            where,
            [what],
            body,
            update_window_dims=(1,),
            inserted_window_dims=(0,),
            scatter_dims_to_operand_dims=(0,),
            index_vector_dim=1,
            unique_indices=unique,
        )
        return result

    if not (is_static(count) and is_static(row)):
        return _replace(operation, [_scatter_in_turn(write, rows, points, updates, part)])
    whole, zero, one = count // part, hlo.constant(np.int32(0)), hlo.constant(np.int32(1))

    def step(i: Value, into: Value) -> list[Value]:
        start = hlo.multiply(i, hlo.constant(np.int32(part)))
        where = hlo.dynamic_slice(points, [start, zero], (part, 1))
        what = hlo.dynamic_slice(updates, [start, zero], (part, row))
        return [hlo.add(i, one), write(into, where, what)]

    limit = hlo.constant(np.int32(whole))
    _, rows = hlo.while_([zero, rows], lambda i, _: hlo.compare(i, limit, "LT"), step)
    done = whole * part
    if done < count:
        rows = write(rows, hlo.slice(points, (done, 0), (count, 1)), hlo.slice(updates, (done, 0), (count, row)))
    _replace(operation, [rows])


def _scatter_in_turn(
    write: Callable[[Value, Value, Value], Value], rows: Value, points: Value, updates: Value, part: int
) -> Value:
    """A symbolic number of updates, or rows of symbolic length, by parts."""
    count = hlo.shape_of(updates)[0]
    limit, step = hlo.scalar_of_size(count, np.int32), hlo.constant(np.int32(part))

    def turn(start: Value, into: Value) -> list[Value]:
        at = hlo.Index.of_scalar(start)
        size = (hlo.Index.of(count) - at).min(part)
        return [hlo.add(start, step), write(into, _part(points, 0, at, size), _part(updates, 0, at, size))]

    zero = hlo.constant(np.int32(0))
    _, result = hlo.while_([zero, rows], lambda start, _: hlo.compare(start, limit, "LT"), turn)
    return result


def _join_by_writing(operation: Any) -> None:
    """Write what is joined into one array, where shapes are symbolic.

    IREE's loop over the elements of the result reads a column x[:, 1:2] from x[1:, 0], and fused into a reduction
    (`all` over two columns) goes wrong from the sixth of seven rows on.
    """
    if not operation.results[0].type.has_static_shape:
        axis = ir.IntegerAttr(operation.attributes["dimension"]).value
        _replace(operation, hlo.optimization_barrier([hlo.join_by_writing(list(operation.operands), axis)]))


_REWRITES: dict[str, Callable[[Any], None]] = {
    "stablehlo.reduce": _split_reduction,
    "stablehlo.dot_general": _split_contraction,
    "stablehlo.convolution": _split_convolution,
    "stablehlo.scatter": _split_scatter,
    "stablehlo.concatenate": _join_by_writing,
}


def _end_dispatches_after_reductions(module: ir.Module) -> None:
    """Keep a reduction out of the dispatch of its consumers: two in one (a softmax) may fail to compile.

    `failed to legalize operation 'arith.constant'`, of a vector of the tile's size.
    """
    for operation in _operations(module):
        if operation.name == "stablehlo.reduce":
            behind_barrier(operation)


def _end_dispatches_before_wide_broadcasts(module: ir.Module) -> None:
    """Keep a small result out of the dispatch of its large consumers.

    A sum of 40 numbers that scales 10**6 others becomes one dispatch, in which one invocation loops over all of them.
    """
    for operation in _operations(module):
        if operation.name not in _BROADCASTING:
            continue
        size = _count(hlo.shape_of(operation.results[0]))
        arrays = 1 if operation.name == "stablehlo.dynamic_broadcast_in_dim" else len(operation.operands)
        for i, x in enumerate(list(operation.operands)[:arrays]):
            constant = maker(x) in ("stablehlo.constant", "stablehlo.iota")
            if not constant and size > _LONGEST_REDUCTION * _count(hlo.shape_of(x)):
                bar_operand(operation, i)


def _multiply_for_negations(module: ir.Module) -> None:
    """Keep negations out of sums: IREE subtracts then, and of a difference it finds no neutral element (error)."""
    for operation in _operations(module):
        if operation.name == "stablehlo.negate" and hlo.dtype_of(operation.results[0]) in _FLOATS:
            with ir.InsertionPoint(operation), operation.location:
                (x,) = operation.operands
                _replace(operation, [hlo.multiply(x, hlo.full_like(x, -1))])


def _separate_loops(module: ir.Module) -> None:
    """Let each loop start from arrays of its own where their shapes are symbolic.

    Of two that start from one array the one writes into the other's, or frees it ("queued for deallocation").
    """
    for operation in _operations(module):
        if operation.name == "stablehlo.while":
            for i, x in enumerate(operation.operands):
                if not x.type.has_static_shape:
                    bar_operand(operation, i)


# Positions.


def _materialize_positions(module: ir.Module) -> None:
    """Keep iota out of fused reductions, which do not compile with it (`failed to legalize 'memref.alloc'`)."""
    for operation in _operations(module):
        if operation.name not in ("stablehlo.iota", "stablehlo.dynamic_iota"):
            continue
        (result,) = operation.results
        shape = hlo.shape_of(result) if operation.name == "stablehlo.iota" else hlo.sizes_of(operation.operands[0])
        axis = ir.IntegerAttr(operation.attributes["iota_dimension"]).value
        with ir.InsertionPoint(operation), operation.location:
            line = hlo.iota(hlo.dtype_of(result), (shape[axis],), 0)
            (line,) = hlo.optimization_barrier([line])
            _replace(operation, [hlo.broadcast_in_dim(line, shape, [axis])])


# Roundings.


def _keep_roundings(module: ir.Module) -> None:
    """Hide the sums that are summands from the driver's algebra.

    An integer minimum that changes nothing but one pattern of NaN keeps it from looking through.
    """
    for operation in _operations(module):
        if operation.name not in _SUMS or hlo.dtype_of(operation.results[0]) not in _FLOATS:
            continue
        alike = operation.operands[0] == operation.operands[1]
        for i, x in enumerate(operation.operands):
            if maker(x) in _SUMS or (alike and i == 0):
                with ir.InsertionPoint(operation), operation.location:
                    operation.operands[i] = _opaque(x)


def _opaque(x: Value) -> Value:
    dtype = hlo.dtype_of(x)
    bits = hlo.bitcast_convert(x, _FLOATS[dtype])
    integers: Any = np.dtype(_FLOATS[dtype])
    highest = hlo.full_like(bits, np.iinfo(integers).max - 1)
    return hlo.bitcast_convert(hlo.minimum(bits, highest), dtype)
