"""Products of arrays of which one dimension is divided into groups of sizes that are known at run time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from veery._core import dtypes, source
from veery._core.avals import aval_of
from veery.lax import _arithmetic, _bitwise, _compare, _contract, _cumulative, _reduce, _shape
from veery.lax._placement import lays_out

Dims = tuple[int, ...]


@dataclass(frozen=True)
class RaggedDotDimensionNumbers:
    """Which dimensions `ragged_dot_general` contracts, and which are divided into groups.

    Attributes:
        dot_dimension_numbers: as for `dot_general`: (contracting dimensions, batch dimensions) of both operands.
        lhs_ragged_dimensions: the dimension of lhs that is divided into groups, a sequence of one.
        rhs_group_dimensions: the dimension of rhs that counts groups, a sequence of one; empty where the ragged one is
            a contracting or a batch dimension.
    """

    dot_dimension_numbers: tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]]
    lhs_ragged_dimensions: Sequence[int]
    rhs_group_dimensions: Sequence[int]


_ROWS = RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))


@lays_out
@source.api_boundary
def ragged_dot(
    lhs: Any,
    rhs: Any,
    group_sizes: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
    group_offset: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The product of each row with the matrix of its group.

    Args:
        lhs: array (m, k).
        rhs: array (g, k, n), a matrix for each group.
        group_sizes: integers (g,): the first so many rows belong to the first group, the next ones to the second...
        precision: as for `dot`.
        preferred_element_type: as for `dot`.
        group_offset: not supported.
        out_sharding: how the result is divided over Explicit axes of a mesh.

    Returns:
        An array (m, n). Rows beyond all groups are zero.

    Raises:
        TypeError: shapes or dtypes do not fit.

    >>> import veery.numpy as jnp
    >>> from veery import lax
    >>> lax.ragged_dot(jnp.ones((3, 2)), jnp.array([[[1.0], [2.0]], [[10.0], [20.0]]]), jnp.array([1, 2])).tolist()
    [[3.0], [30.0], [30.0]]
    """
    avals = [aval_of(x) for x in (lhs, rhs, group_sizes)]
    if tuple(aval.ndim for aval in avals) != (2, 3, 1):
        raise TypeError(
            "ragged_dot takes lhs of shape (m, k), rhs of shape (g, k, n) and group_sizes of shape (g,), got "
            f"{avals[0].shape}, {avals[1].shape} and {avals[2].shape}"
        )
    return ragged_dot_general(lhs, rhs, group_sizes, _ROWS, precision, preferred_element_type, group_offset)


@lays_out
@source.api_boundary
def ragged_dot_general(
    lhs: Any,
    rhs: Any,
    group_sizes: Any,
    ragged_dot_dimension_numbers: RaggedDotDimensionNumbers,
    precision: Any = None,
    preferred_element_type: Any = None,
    group_offset: Any = None,
    out_sharding: Any = None,
) -> Any:
    """A product of which one dimension is divided into groups.

    Args:
        lhs: array. Where its ragged dimension is free, each part meets its group's part of rhs; where it is contracted,
            the sums are over groups, and the result has the groups in front; where it is a batch dimension, it
            is one all the same.
        rhs: array.
        group_sizes: integers (..., g), for each place of the dimensions of lhs that come before the ragged one (batch
            dimensions first); or (g,), the same for all.
        ragged_dot_dimension_numbers: the dimensions.
        precision: as for `dot`.
        preferred_element_type: as for `dot`.
        group_offset: not supported.
        out_sharding: how the result is divided over Explicit axes of a mesh.

    Returns:
        Batch dimensions, free dimensions of lhs, free dimensions of rhs. What is in no group counts as zero.

    Raises:
        TypeError: shapes or dtypes do not fit.

    >>> import veery.numpy as jnp
    >>> from veery import lax
    >>> contracted = lax.RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), (0,), ())
    >>> lax.ragged_dot_general(jnp.ones((3, 1)), jnp.ones((3, 1)), jnp.array([1, 2]), contracted).tolist()
    [[[1.0]], [[2.0]]]
    """
    if group_offset is not None:
        raise NotImplementedError("ragged_dot: group_offset is not supported; drop the groups before it from rhs")
    plan = _plan(aval_of(lhs), aval_of(rhs), aval_of(group_sizes), ragged_dot_dimension_numbers)
    options: dict[str, Any] = dict(precision=precision, preferred_element_type=preferred_element_type)
    member = _membership(np.shape(lhs), group_sizes, plan)
    keep = lambda x, mask: _compare.select(mask, x, _shape.full_like(x, 0))
    if plan.ragged in plan.batch[0]:
        whole = keep(lhs, _reduce.reduce_or(member, (0,)))
        return _contract.dot_general(whole, rhs, (plan.contracting, plan.batch), **options)
    # All of lhs once for each group, zero outside of it.
    spread = keep(_shape.broadcast(lhs, (np.shape(member)[0],)), member)
    behind = lambda dims: tuple(d + 1 for d in dims)
    contracting = (behind(plan.contracting[0]), plan.contracting[1])
    batch = (behind(plan.batch[0]), plan.batch[1])
    if plan.group is not None:
        contracting = ((0, *contracting[0]), (plan.group, *contracting[1]))
        return _contract.dot_general(spread, rhs, (contracting, batch), **options)
    sums = _contract.dot_general(spread, rhs, (contracting, batch), **options)
    return _shape.moveaxis(sums, len(plan.batch[0]), 0)


@dataclass(frozen=True)
class _Plan:
    """Dimensions as tuples; `outer` are those of lhs that come before the ragged one in group_sizes."""

    contracting: tuple[Dims, Dims]
    batch: tuple[Dims, Dims]
    ragged: int
    group: int | None
    outer: Dims


def _plan(lhs: Any, rhs: Any, sizes: Any, numbers: RaggedDotDimensionNumbers) -> _Plan:
    contracting, batch = ((tuple(left), tuple(right)) for left, right in numbers.dot_dimension_numbers)
    ragged, group = tuple(numbers.lhs_ragged_dimensions), tuple(numbers.rhs_group_dimensions)
    if len(ragged) != 1:
        raise TypeError(f"ragged_dot_general expects exactly one lhs ragged dimension, got {len(ragged)}.")
    if not 0 <= ragged[0] < lhs.ndim:
        raise TypeError(
            f"ragged_dot_general requires lhs ragged dimension numbers to be nonnegative and less than the number of "
            f"axes of the lhs value, got {ragged[0]} for lhs of rank {lhs.ndim}."
        )
    is_free = ragged[0] not in (*contracting[0], *batch[0])
    if len(group) != is_free:
        raise TypeError(
            f"ragged_dot_general expects {int(is_free)} rhs group dimensions where the ragged dimension of lhs is "
            f"{'free' if is_free else 'a contracting or batch dimension'}, got {len(group)}."
        )
    if not dtypes.issubdtype(sizes.dtype, np.integer):
        raise TypeError(f"ragged_dot requires group_sizes of an integer dtype, got {sizes.dtype.name}")
    for kind, (left, right) in (("contracting", contracting), ("batch", batch)):
        shapes = [tuple(x.shape[d] for d in dims) for x, dims in ((lhs, left), (rhs, right))]
        if shapes[0] != shapes[1]:
            raise TypeError(
                f"ragged_dot requires {kind} dimensions to have the same shape, got {shapes[0]} and {shapes[1]}."
            )
    if group and rhs.shape[group[0]] != sizes.shape[-1]:
        raise TypeError(
            f"ragged_dot: rhs has matrices for {rhs.shape[group[0]]} groups, group_sizes has {sizes.shape[-1]}"
        )
    free = [d for d in range(lhs.ndim) if d not in (*contracting[0], *batch[0])]
    alike: Sequence[int] = next(dims for dims in (free, contracting[0], batch[0]) if ragged[0] in dims)
    before = tuple(alike[: list(alike).index(ragged[0])])
    outer = before if ragged[0] in batch[0] else (*batch[0], *before)
    expected = tuple(lhs.shape[d] for d in outer)
    if sizes.ndim > 1 and sizes.shape[:-1] != expected or sizes.ndim == 0:
        raise TypeError(
            f"ragged_dot_general expects group_sizes of shape (g,), or that behind {expected}, got {sizes.shape}."
        )
    return _Plan(contracting, batch, ragged[0], group[0] if group else None, outer if sizes.ndim > 1 else ())


def _membership(shape: Sequence[int], sizes: Any, plan: _Plan) -> Any:
    """For each group, and each place in lhs, whether that belongs to it."""
    last = np.ndim(sizes) - 1
    full = (np.shape(sizes)[last], *shape)
    ends = _cumulative.cumsum(sizes, last)
    places = _shape.broadcasted_iota(aval_of(ends).dtype, full, plan.ragged + 1)
    spread = lambda x: _spread(x, full, plan.outer)
    begun = _compare.ge(places, spread(_arithmetic.sub(ends, sizes)))
    return _bitwise.bitwise_and(begun, _compare.lt(places, spread(ends)))


def _spread(x: Any, shape: Sequence[int], outer: Dims) -> Any:
    """(..., g) over (g, dimensions of lhs)."""
    in_front = _shape.moveaxis(x, len(outer), 0)
    order = sorted(range(len(outer)), key=lambda i: outer[i])
    turned = _shape.transpose(in_front, (0, *(i + 1 for i in order)))
    return _shape.broadcast_in_dim(turned, shape, (0, *(outer[i] + 1 for i in order)))
