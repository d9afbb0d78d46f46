"""Products whose rows belong to groups, each group with a matrix of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from veery._core import dtypes, source
from veery._core.avals import aval_of
from veery.lax import _arithmetic, _bitwise, _compare, _contract, _cumulative, _shape


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
        out_sharding: accepted for compatibility.

    Returns:
        An array (m, n). Rows beyond all groups are zero.

    Raises:
        TypeError: shapes or dtypes do not fit.

    >>> import veery.numpy as jnp
    >>> from veery import lax
    >>> lax.ragged_dot(jnp.ones((3, 2)), jnp.array([[[1.0], [2.0]], [[10.0], [20.0]]]), jnp.array([1, 2])).tolist()
    [[3.0], [30.0], [30.0]]
    """
    if group_offset is not None:
        raise NotImplementedError("ragged_dot: group_offset is not supported; drop the groups before it from rhs")
    _check(*(aval_of(x) for x in (lhs, rhs, group_sizes)))
    m, groups = np.shape(lhs)[0], np.shape(rhs)[0]
    ends = _cumulative.cumsum(group_sizes, 0)
    rows = _shape.broadcasted_iota(aval_of(ends).dtype, (groups, m), 1)
    along_groups = lambda x: _shape.broadcast_in_dim(x, (groups, m), (0,))
    begun = _compare.ge(rows, along_groups(_arithmetic.sub(ends, group_sizes)))
    member = _bitwise.bitwise_and(begun, _compare.lt(rows, along_groups(ends)))
    # every row of lhs once for each group, zero outside of it: one contraction over groups and k
    spread = _shape.broadcast_in_dim(lhs, (groups, *np.shape(lhs)), (1, 2))
    chosen = _shape.broadcast_in_dim(member, np.shape(spread), (0, 1))
    masked = _compare.select(chosen, spread, _shape.full_like(spread, 0))
    numbers = (((0, 2), (0, 1)), ((), ()))
    return _contract.dot_general(
        masked, rhs, numbers, precision=precision, preferred_element_type=preferred_element_type
    )


def _check(lhs: Any, rhs: Any, sizes: Any) -> None:
    if (lhs.ndim, rhs.ndim, sizes.ndim) != (2, 3, 1):
        raise TypeError(
            "ragged_dot takes lhs of shape (m, k), rhs of shape (g, k, n) and group_sizes of shape (g,), got "
            f"{lhs.shape}, {rhs.shape} and {sizes.shape}"
        )
    if not dtypes.issubdtype(sizes.dtype, np.integer):
        raise TypeError(f"ragged_dot requires group_sizes of an integer dtype, got {sizes.dtype.name}")
    if lhs.shape[1] != rhs.shape[1]:
        raise TypeError(
            "ragged_dot requires contracting dimensions to have the same shape, got "
            f"({lhs.shape[1]},) and ({rhs.shape[1]},)."
        )
    if rhs.shape[0] != sizes.shape[0]:
        raise TypeError(f"ragged_dot: rhs has matrices for {rhs.shape[0]} groups, group_sizes has {sizes.shape[0]}")
