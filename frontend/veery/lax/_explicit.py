"""How the results of each primitive are divided over Explicit axes of a mesh (see `veery._transforms.explicit`).

Operations that need a whole dimension refuse one that is divided, as JAX does; linear algebra takes divided batches.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from veery._core.primitive import Primitive
from veery._transforms.explicit import Ways, ambiguous, elementwise, meet, ways_of
from veery._transforms.foreign import call_module_p
from veery._transforms.remat import name_p
from veery._transforms.varying import pvary_p
from veery.lax import (
    _arithmetic,
    _barrier,
    _callback,
    _check,
    _compare,
    _contract,
    _conv,
    _convert,
    _cumulative,
    _debug,
    _ffi,
    _fft,
    _gather_scatter,
    _linalg_determinant,
    _linalg_orthogonal,
    _linalg_reductions,
    _linalg_solution,
    _linalg_spectral,
    _linalg_triangular,
    _reduce,
    _refs,
    _rng,
    _samples,
    _shape,
    _slicing,
    _sort,
    _stop_gradient,
    _window,
)

Rule = Callable[[Sequence[Any], Sequence[Any], dict[str, Any]], Sequence[Ways | None]]


def _divides(*primitives: Primitive) -> Callable[[Rule], Rule]:
    def declare(rule: Rule) -> Rule:
        for primitive in primitives:
            primitive.divides = rule
        return rule

    return declare


def _whole(x: Any, dims: Sequence[int], message: str) -> None:
    """Refuse an array that is divided along one of these dimensions."""
    if any(ways_of(x)[dim] for dim in dims):
        ambiguous(lambda: message.format(x))


# Element by element.

for primitive in (
    _arithmetic.integer_pow_p, _arithmetic.pow_p, _convert.convert_element_type_p, _convert.reduce_precision_p,
    _stop_gradient.stop_gradient_p, _shape.copy_p, _compare.select_n_p, _compare.clamp_p, _rng.threefry2x32_p,
    _rng.random_seed_p, _rng.random_clone_p, _rng.random_fold_in_p, pvary_p, name_p, _samples.sample_pow_p,
):  # fmt: skip
    primitive.divides = functools.partial(elementwise, str(primitive))


@_divides(_barrier.optimization_barrier_p)
def _each(avals: Sequence[Any], outs: Sequence[Any], params: dict[str, Any]) -> list[Ways]:
    return [ways_of(aval) for aval in avals]


@_divides(
    _debug.debug_callback_p, _debug.debug_print_p, _check.check_p, _callback.pure_callback_p, _callback.io_callback_p,
    _ffi.ffi_call_p, call_module_p, _refs.new_ref_p,
)  # fmt: skip
def _whole_ones(avals: Sequence[Any], outs: Sequence[Any], params: dict[str, Any]) -> list[Ways | None]:
    """There are none, or they come from outside; a reference is divided as what it holds."""
    return [None] * len(outs)


# Other shapes.


@_divides(_convert.bitcast_convert_type_p)
def _bitcast(avals: Sequence[Any], outs: Sequence[Any], params: dict[str, Any]) -> list[Ways]:
    """Of wider elements each is a row of narrower ones, or the other way round."""
    (x,), (out,) = avals, outs
    if out.ndim < x.ndim:
        _whole(x, [x.ndim - 1], "bitcast_convert_type: what becomes one element must be unsharded, got {}")
    return [(*ways_of(x)[: out.ndim], *[()] * (out.ndim - x.ndim))]


@_divides(_shape.broadcast_in_dim_p)
def _broadcast(avals: Sequence[Any], outs: Sequence[Any], params: dict[str, Any]) -> list[Ways]:
    (out,) = outs
    ways: list[Any] = [()] * out.ndim
    for dim, size, axes in zip(params["broadcast_dimensions"], avals[0].shape, ways_of(avals[0])):
        ways[dim] = axes if out.shape[dim] == size else ()
    return [tuple(ways)]


@_divides(_shape.transpose_p)
def _transposed(avals: Sequence[Any], outs: Sequence[Any], params: dict[str, Any]) -> list[Ways]:
    ways = ways_of(avals[0])
    return [tuple(ways[dim] for dim in params["permutation"])]


@_divides(_shape.squeeze_p)
def _squeezed(avals: Sequence[Any], outs: Sequence[Any], params: dict[str, Any]) -> list[Ways]:
    return [_others(avals[0], params["dimensions"])]


def _others(x: Any, dims: Sequence[int]) -> Ways:
    return tuple(axes for dim, axes in enumerate(ways_of(x)) if dim not in dims)


@_divides(_shape.reshape_p)
def _reshaped(avals: Sequence[Any], outs: Sequence[Any], params: dict[str, Any]) -> list[Ways]:
    """Axes go from a dimension to those that it becomes, the coarsest first, and from several to the one they become.

    That is ambiguous where several dimensions become several, and where a whole one is followed by a divided one.
    """
    (x, *_), (out,) = avals, outs
    ways, found = ways_of(x), [()] * out.ndim
    for before, after in _groups(x.shape, out.shape):
        divided = [dim for dim in before if ways[dim]]
        if not divided:
            continue
        axes = [axis for dim in before for axis in ways[dim]]
        given = _given(axes, [out.shape[dim] for dim in after], x.divided.mesh.shape)
        if given is None or len(before) > 1 < len(after) or divided != before[: len(divided)]:
            ambiguous(
                lambda: (
                    "This reshape is not supported. Please specify the sharding of the output via the `out_sharding` "
                    f"argument of jax.lax.reshape. Got operand type: {x}, new sizes: {out.shape}"
                )
            )
        else:
            for dim, taken in zip(after, given):
                found[dim] = taken
    return [tuple(found)]


def _given(axes: Sequence[Any], sizes: Sequence[int], counts: Any) -> list[tuple[Any, ...]] | None:
    """The axes that each dimension takes, until its parts are single elements; None where one does not divide it."""
    rest, given = list(axes), []
    for size in sizes:
        taken: list[Any] = []
        while size > 1 and rest:
            if size % counts[rest[0]]:
                return None
            size //= counts[rest[0]]
            taken.append(rest.pop(0))
        given.append(tuple(taken))
    return given


def _groups(old: Sequence[int], new: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """The smallest groups of dimensions, but for those of size 1, that have as many elements in both shapes."""
    before, after = ([dim for dim, size in enumerate(shape) if size != 1] for shape in (old, new))
    groups = []
    while before and after:
        first, second = [before.pop(0)], [after.pop(0)]
        while (have := math.prod(old[d] for d in first)) != (want := math.prod(new[d] for d in second)):
            side, rest = (first, before) if have < want else (second, after)
            if not rest:
                break
            side.append(rest.pop(0))
        groups.append((first, second))
    return groups


@_divides(_slicing.slice_p, _slicing.dynamic_slice_p, _shape.split_p, _shape.pad_p, _shape.rev_p, _fft.fft_p)
def _resized(avals: Sequence[Any], outs: Sequence[Any], params: dict[str, Any]) -> list[Ways]:
    return [ways_of(avals[0])] * len(outs)


def _joins(part: Any, x: Any, dims: Sequence[int], of_x: Sequence[int]) -> bool:
    """Whether an array is divided along these dimensions as another is, or is whole and has as many elements there."""
    ours, others = ways_of(part), ways_of(x)
    return all(ours[i] == others[j] or (not ours[i] and part.shape[i] == x.shape[j]) for i, j in zip(dims, of_x))


@_divides(_slicing.dynamic_update_slice_p)
def _updated(avals: Sequence[Any], outs: Sequence[Any], params: dict[str, Any]) -> list[Ways]:
    x, update = avals[:2]
    if not _joins(update, x, range(x.ndim), range(x.ndim)):
        ambiguous(
            lambda: (
                "dynamic_update_slice operand sharding must be equal to update sharding, got operand sharding "
                f"{x} and update sharding {update}."
            )
        )
    return [ways_of(x)]


@_divides(_shape.concatenate_p)
def _concatenated(avals: Sequence[Any], outs: Sequence[Any], params: dict[str, Any]) -> list[Ways]:
    """What is not divided, such as padding, joins what is."""
    named = list(dict.fromkeys(ways_of(aval) for aval in avals if aval.divided))
    if len(named) > 1:
        ambiguous(
            lambda: (
                "All operands should have the same sharding. Got shardings "
                f"{', '.join(str(aval.sharding) for aval in avals)}"
            )
        )
    return [named[0]]


# Reductions, and what needs a whole dimension.


@_divides(
    _reduce.reduce_sum_p, _reduce.reduce_max_p, _reduce.reduce_min_p, _reduce.reduce_prod_p, _reduce.reduce_and_p,
    _reduce.reduce_or_p, _reduce.reduce_xor_p, _reduce.argmax_p, _reduce.argmin_p,
)  # fmt: skip
def _reduced(avals: Sequence[Any], outs: Sequence[Any], params: dict[str, Any]) -> list[Ways]:
    return [_others(avals[0], params["axes"])]


@_divides(_reduce.reduce_p)
def _reduced_together(avals: Sequence[Any], outs: Sequence[Any], params: dict[str, Any]) -> list[Ways]:
    return [_others(aval, params["dimensions"]) for aval in avals[: len(outs)]]


@_divides(
    _cumulative.cumsum_p, _cumulative.cumprod_p, _cumulative.cummax_p, _cumulative.cummin_p, _cumulative.cumlogsumexp_p
)
def _accumulated(avals: Sequence[Any], outs: Sequence[Any], params: dict[str, Any]) -> list[Ways]:
    axis = params["axis"]
    _whole(
        avals[0], [axis], f"Input should be unsharded over the axis being reduced. Got input type={{}} and axis={axis}"
    )
    return [ways_of(avals[0])]


@_divides(_sort.sort_p)
def _sorted(avals: Sequence[Any], outs: Sequence[Any], params: dict[str, Any]) -> list[Ways]:
    dim = params["dimension"]
    words = "Arguments to sort must be unsharded over the sorting dimension."
    for x in avals:
        _whole(x, [dim], f"{words} Got {{}} and sorting dimension={dim}")
    return elementwise("sort", avals, outs, params)


@_divides(_sort.top_k_p)
def _largest(avals: Sequence[Any], outs: Sequence[Any], params: dict[str, Any]) -> list[Ways]:
    _whole(avals[0], [params["axis"]], "top_k: the operand {} must be unsharded over the dimension that is searched")
    return [ways_of(avals[0])] * 2


@_divides(
    _window.reduce_window_sum_p, _window.reduce_window_max_p, _window.reduce_window_min_p, _window.reduce_window_p,
    _window.select_and_gather_add_p,
)  # fmt: skip
def _windowed(avals: Sequence[Any], outs: Sequence[Any], params: dict[str, Any]) -> list[Ways]:
    dims = [dim for dim, size in enumerate(params["window_dimensions"]) if size != 1]
    for x in avals[: len(outs)]:
        _whole(x, dims, "reduce_window: {} must be unsharded over dimensions with windows of more than one element")
    return [ways_of(x) for x in avals[: len(outs)]]


@_divides(_window.select_and_scatter_add_p)
def _scattered_to_windows(avals: Sequence[Any], outs: Sequence[Any], params: dict[str, Any]) -> Sequence[Ways | None]:
    return _windowed(avals[1:], outs, params)


# Linear algebra takes divided batches.


@_divides(
    _linalg_triangular.cholesky_p, _linalg_triangular.lu_p, _linalg_triangular.triangular_solve_p,
    _linalg_determinant.determinant_p, _linalg_solution.lu_solve_p,
    _linalg_orthogonal.qr_p, _linalg_orthogonal.householder_product_p, _linalg_spectral.eigh_p, _linalg_spectral.svd_p,
    _linalg_spectral.eig_p, _linalg_reductions.hessenberg_p, _linalg_reductions.schur_p,
    _linalg_reductions.tridiagonal_p, _linalg_reductions.ormqr_p,
)  # fmt: skip
def _of_matrices(avals: Sequence[Any], outs: Sequence[Any], params: dict[str, Any]) -> list[Ways]:
    return _of_batches(avals, outs, avals[0].ndim - 2)


@_divides(_linalg_triangular.lu_pivots_to_permutation_p, _linalg_reductions.tridiagonal_solve_p)
def _of_vectors(avals: Sequence[Any], outs: Sequence[Any], params: dict[str, Any]) -> list[Ways]:
    return _of_batches(avals, outs, avals[0].ndim - 1)


def _of_batches(avals: Sequence[Any], outs: Sequence[Any], batch: int) -> list[Ways]:
    for x in avals:
        if any(ways_of(x)[batch:]):
            ambiguous(lambda x=x: f"{x} must be unsharded on non-batch dimensions, but got {x.divided.spec}.")  # type: ignore[misc]
    message = lambda: f"batches are divided in different ways: {', '.join(map(str, avals))}"
    ways = tuple(meet([ways_of(x)[dim] for x in avals], message) for dim in range(batch))
    return [(*ways, *[()] * (out.ndim - batch)) for out in outs]


# Products.

_CONTRACTED = (
    "Contracting dimensions are sharded and it is ambiguous how the output should be sharded. Please specify the "
    "output sharding via the `out_sharding` parameter. Got lhs_contracting_spec={} and rhs_contracting_spec={}"
)


def _contract_dims(name: str, lhs: Sequence[Any], rhs: Sequence[Any]) -> None:
    """Refuse to sum over dimensions that are divided in both operands."""
    both = [(a, b) for a, b in zip(lhs, rhs) if a and b]
    shown = lambda ways: tuple(axes[0] if len(axes) == 1 else axes or None for axes in ways)
    if any(a != b for a, b in both):
        ambiguous(
            lambda: (
                f"{name} requires contracting dimensions to have consistent sharding, got {shown(lhs)} and "
                f"{shown(rhs)}."
            )
        )
    elif both:
        ambiguous(lambda: _CONTRACTED.format(shown(lhs), shown(rhs)))


@_divides(_contract.dot_general_p)
def _dotted(avals: Sequence[Any], outs: Sequence[Any], params: dict[str, Any]) -> list[Ways]:
    (lhs_sum, rhs_sum), (lhs_batch, rhs_batch) = params["dimension_numbers"]
    a, b = map(ways_of, avals)
    _contract_dims("dot_general", [a[i] for i in lhs_sum], [b[i] for i in rhs_sum])
    message = lambda: (
        "dot_general requires lhs batch dimensions and rhs batch dimensions to have the consistent sharding, got "
        f"{avals[0]} and {avals[1]}."
    )
    batch = [meet([a[i], b[j]], message) for i, j in zip(lhs_batch, rhs_batch)]
    return [(*batch, *_others(avals[0], (*lhs_sum, *lhs_batch)), *_others(avals[1], (*rhs_sum, *rhs_batch)))]


@_divides(_conv.conv_general_dilated_p)
def _convolved(avals: Sequence[Any], outs: Sequence[Any], params: dict[str, Any]) -> list[Ways]:
    (n, c, *space), (features, inputs, *window), (out_n, out_c, *_) = params["dimension_numbers"]
    a, b = map(ways_of, avals)
    _contract_dims("conv_general_dilated", [a[c]], [b[inputs]])
    _whole(avals[0], space, "conv_general_dilated: the dimensions of space must be unsharded, got {}")
    _whole(avals[1], window, "conv_general_dilated: the dimensions of space must be unsharded, got {}")
    ways: list[Any] = [()] * outs[0].ndim
    ways[out_n], ways[out_c] = a[n], b[features]
    return [tuple(ways)]


# Indexing.

_LOOKED_UP = (
    "Use `.at[...].get(out_sharding=)` to provide output PartitionSpec for the gather indexing as out sharding could "
    "not be resolved unambiguously (or would require collectives on inputs). Got operand={!r}, indices={!r}"
)
_WRITTEN = (
    "Use `.at[...].set/add/mul/...(out_sharding=)` to provide output PartitionSpec for the scatter update as out "
    "sharding could not be resolved unambiguously (or would require collectives on inputs). Got operand={!r}, "
    "indices={!r}, updates={!r}"
)


@_divides(_gather_scatter.gather_p)
def _gathered(avals: Sequence[Any], outs: Sequence[Any], params: dict[str, Any]) -> list[Ways]:
    """Windows that have a whole dimension are divided as the operand is along it, batches as the indices are."""
    (x, indices), (out,) = avals, outs
    numbers, sizes, message = params["dimension_numbers"], params["slice_sizes"], lambda: _LOOKED_UP.format(x, indices)
    ways, of_indices = ways_of(x), list(ways_of(indices)[:-1])
    apart = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    for dim, axes in enumerate(ways):
        if axes and dim not in numbers.operand_batching_dims and (dim in apart or sizes[dim] != x.shape[dim]):
            ambiguous(message)
    for dim, axes in enumerate(of_indices):
        if axes and dim not in numbers.start_indices_batching_dims:
            ambiguous(message)
    for dim, other in zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims):
        of_indices[other] = meet([ways[dim], of_indices[other]], message)
    windows = (axes if sizes[d] == x.shape[d] else () for d, axes in enumerate(ways) if d not in apart)
    batches = iter(of_indices)
    return [tuple(next(windows if dim in numbers.offset_dims else batches) for dim in range(out.ndim))]


@_divides(
    _gather_scatter.scatter_p, _gather_scatter.scatter_add_p, _gather_scatter.scatter_sub_p,
    _gather_scatter.scatter_mul_p, _gather_scatter.scatter_min_p, _gather_scatter.scatter_max_p,
)  # fmt: skip
def _scattered(avals: Sequence[Any], outs: Sequence[Any], params: dict[str, Any]) -> list[Ways]:
    x, indices, updates = avals
    numbers = params["dimension_numbers"]
    ways = ways_of(x)
    looked_up = (*numbers.inserted_window_dims, *numbers.scatter_dims_to_operand_dims)
    apart = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
    windows = [dim for dim in range(x.ndim) if dim not in apart]
    divided = [(u, dim) for dim, u in zip(windows, sorted(numbers.update_window_dims)) if ways[dim]]
    agree = not divided or _joins(updates, x, *zip(*divided))
    if any(ways[dim] for dim in looked_up) or not agree or (indices.divided and not numbers.operand_batching_dims):
        ambiguous(lambda: _WRITTEN.format(x, indices, updates))
    return [ways]


# Random bits: those of each key lie where the key does.


@_divides(_rng.random_bits_p, _rng.random_split_p, _rng.random_unwrap_p)
def _of_keys(avals: Sequence[Any], outs: Sequence[Any], params: dict[str, Any]) -> list[Ways]:
    ways = ways_of(avals[0])
    return [(*ways, *[()] * (outs[0].ndim - len(ways)))]


@_divides(_rng.random_wrap_p)
def _of_words(avals: Sequence[Any], outs: Sequence[Any], params: dict[str, Any]) -> list[Ways]:
    _whole(avals[0], [avals[0].ndim - 1], "random_wrap: the words of a key are one dimension, which is divided: {}")
    return [ways_of(avals[0])[:-1]]
