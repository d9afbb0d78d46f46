"""BCOO: batched arrays of coordinates.

An array of shape (batch..., sparse..., dense...) is stored as `data`, of shape (batch..., nse, dense...), and
`indices`, of shape (batch..., nse, number of sparse axes). An index beyond an axis marks what does not count (padding);
equal indices are summed. Products read rows of the other operand by index and sum them by index; nothing becomes dense.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import math
import operator
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from veery import lax, numpy as jnp
from veery._api.inspection import eval_shape
from veery._api.shape_structs import ShapeDtypeStruct
from veery._core import dtypes
from veery._core.tree_registry import register_pytree_node_class
from veery.experimental.sparse._base import JAXSparse
from veery.experimental.sparse.util import (
    Array,
    Shape,
    SparseEfficiencyError,
    SparseEfficiencyWarning,
    columns,
    nfold_vmap,
    per_axis,
)

DotDimensionNumbers = Any


@register_pytree_node_class
class BCOO(JAXSparse):
    """A sparse array by coordinates, perhaps with axes of a batch in front and dense axes behind.

    Args:
        args: (data, indices): arrays of shape (batch..., nse, dense...) and (batch..., nse, sparse axes).
        shape: of the array.
        indices_sorted: whether the indices are known to be in order.
        unique_indices: whether no index is known to occur twice.

    Raises:
        AssertionError: indices are no integers.
        ValueError: shapes do not fit together.

    >>> import veery.numpy as jnp
    >>> from veery.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([[0.0, 2.0], [3.0, 0.0]]))
    >>> x, x.data, x.indices.tolist()
    (BCOO(float32[2, 2], nse=2), Array([2., 3.], dtype=float32), [[0, 1], [1, 0]])
    >>> x @ jnp.ones(2)
    Array([2., 3.], dtype=float32)
    """

    data: Array
    indices: Array

    def __init__(
        self, args: tuple[Array, Array], *, shape: Sequence[int], indices_sorted: bool = False,
        unique_indices: bool = False,
    ):  # fmt: skip
        self.data, self.indices = map(jnp.asarray, args)
        self.indices_sorted = indices_sorted
        self.unique_indices = unique_indices
        super().__init__(args, shape=shape)
        _validate(self.data, self.indices, self.shape)

    n_batch = property(lambda self: self.indices.ndim - 2)
    n_sparse = property(lambda self: self.indices.shape[-1])
    n_dense = property(lambda self: self.data.ndim - 1 - self.n_batch)
    nse = property(lambda self: self.indices.shape[-2])

    @classmethod
    def fromdense(
        cls, mat: Array, *, nse: int | None = None, index_dtype: Any = np.int32, n_dense: int = 0, n_batch: int = 0
    ) -> BCOO:
        """See `bcoo_fromdense`."""
        return bcoo_fromdense(mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch)

    @classmethod
    def from_scipy_sparse(cls, mat: Any, *, index_dtype: Any = None, n_dense: int = 0, n_batch: int = 0) -> BCOO:
        """From a sparse matrix of SciPy."""
        if n_dense or n_batch:
            raise NotImplementedError("BCOO.from_scipy_sparse with nonzero n_dense/n_batch: use update_layout")
        mat = mat.tocoo()
        indices = jnp.column_stack([jnp.asarray(mat.row), jnp.asarray(mat.col)]).astype(index_dtype or np.int32)
        return cls((jnp.asarray(mat.data), indices), shape=mat.shape)

    def update_layout(
        self, *, n_batch: int | None = None, n_dense: int | None = None, on_inefficient: str = "error"
    ) -> BCOO:
        """See `bcoo_update_layout`."""
        return bcoo_update_layout(self, n_batch=n_batch, n_dense=n_dense, on_inefficient=on_inefficient)

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCOO:
        """The array in which no index occurs twice, in order; see `bcoo_sum_duplicates`."""
        return bcoo_sum_duplicates(bcoo_eliminate_zeros(self) if remove_zeros and nse is None else self, nse=nse)

    def sort_indices(self) -> BCOO:
        """The array with its indices in order."""
        return bcoo_sort_indices(self)

    def todense(self) -> Array:
        """The array with its zeros."""
        return bcoo_todense(self)

    def transpose(self, axes: Sequence[int] | None = None) -> BCOO:
        """The array with its axes in another order; by default each kind of axes reversed."""
        permutation = tuple(range(self.ndim))[::-1] if axes is None else tuple(axes)
        return bcoo_transpose(self, permutation=permutation)

    def tree_flatten(self) -> tuple[tuple[Array, Array], dict[str, Any]]:
        info = {"shape": self.shape, "indices_sorted": self.indices_sorted, "unique_indices": self.unique_indices}
        return (self.data, self.indices), info

    @classmethod
    def tree_unflatten(cls, aux_data: dict[str, Any], children: Any) -> BCOO:
        made = object.__new__(cls)
        made.data, made.indices = children
        made.__dict__.update(aux_data)
        if hasattr(made.indices, "shape") and hasattr(made.data, "shape") and len(made.indices.shape) >= 2:
            made.shape = fitted(
                made.shape, made.data, made.indices, len(made.indices.shape) - 2, made.indices.shape[-1]
            )
        return made


def fitted(shape: Shape, data: Array, indices: Array, n_batch: int, n_sparse: int) -> Shape:
    """The shape that fits buffers which have more or fewer batch axes: vmap takes one away, or brings one."""
    known = len(shape) - n_sparse - (data.ndim - 1 - n_batch)
    if known < 0:  # data alone has more axes
        return (*data.shape[: n_batch - known], *shape)
    batch, rest = shape[:known], shape[known:]
    sizes = tuple(map(max, data.shape[:n_batch], indices.shape[:n_batch]))  # 1 stands for any size
    # Which axes stayed: of several ways that fit the sizes that in which leading ones came or went.
    for stayed in reversed([*itertools.combinations(range(max(known, n_batch)), min(known, n_batch))]):
        if known > n_batch and all(n in (1, batch[i]) for n, i in zip(sizes, stayed)):
            return (*(batch[i] for i in stayed), *rest)
        if known <= n_batch and all(sizes[i] in (1, n) for n, i in zip(batch, stayed)):
            before = dict(zip(stayed, batch))
            return (*(before.get(i, n) for i, n in enumerate(sizes)), *rest)
    return shape


def _validate(data: Array, indices: Array, shape: Shape) -> None:
    if not dtypes.issubdtype(indices.dtype, np.integer):
        raise AssertionError(f"the indices of a BCOO must be integers, got {indices.dtype.name}")
    if indices.ndim < 2:
        raise ValueError(f"the indices of a BCOO have the axes (..., nse, sparse axes), got {indices.shape}")
    n_batch, (nse, n_sparse) = indices.ndim - 2, indices.shape[-2:]
    n_dense = len(shape) - n_batch - n_sparse
    fits = lambda sizes: len(sizes) == n_batch and all(s in (1, t) for s, t in zip(sizes, shape))
    expected = (nse, *shape[n_batch + n_sparse :])
    if n_dense < 0 or not fits(indices.shape[:n_batch]):
        raise ValueError(f"Invalid indices.shape={indices.shape} for shape={shape}")
    if not fits(data.shape[:n_batch]) or data.shape[n_batch:] != expected:
        raise ValueError(f"Invalid data.shape={data.shape} for nse={nse}, n_batch={n_batch}, n_dense={n_dense}")


def _like(mat: BCOO, data: Array, indices: Array, shape: Sequence[int], **known: bool) -> BCOO:
    return BCOO((data, indices), shape=shape, **known)


def _known(mat: BCOO) -> dict[str, bool]:
    return {"indices_sorted": mat.indices_sorted, "unique_indices": mat.unique_indices}


def with_data(mat: BCOO, data: Array) -> BCOO:
    """The array with other values in the same places."""
    return BCOO((data, mat.indices), shape=mat.shape, **_known(mat))


def full_batch(mat: BCOO) -> tuple[Array, Array]:
    """Data and indices whose axes of the batch have their sizes."""
    batch = mat.shape[: mat.n_batch]
    whole = lambda x: jnp.broadcast_to(x, (*batch, *x.shape[mat.n_batch :]))
    return whole(mat.data), whole(mat.indices)


def sparse_shape(mat: BCOO) -> Shape:
    """The sizes of the sparse axes."""
    return mat.shape[mat.n_batch : mat.n_batch + mat.n_sparse]


# From dense arrays, and to them.


def bcoo_fromdense(
    mat: Array, *, nse: int | None = None, n_batch: int = 0, n_dense: int = 0, index_dtype: Any = np.int32
) -> BCOO:
    """The BCOO of a dense array.

    Args:
        mat: the array.
        nse: how many elements are stored; by default as many as are not zero, which must be known (not under jit).
        n_batch: how many leading axes are of a batch.
        n_dense: how many axes at the end are stored whole.
        index_dtype: of the indices.
    """
    mat = jnp.asarray(mat)
    n_sparse = mat.ndim - n_batch - n_dense
    if n_sparse < 0 or n_batch < 0 or n_dense < 0:
        raise ValueError(f"bcoo_fromdense: n_batch={n_batch} and n_dense={n_dense} for an array of {mat.ndim} axes")
    stored = (mat != 0).any(axis=tuple(range(n_batch + n_sparse, mat.ndim)))
    if nse is None:
        counts = stored.sum(axis=tuple(range(n_batch, stored.ndim)))
        nse = int(counts.max()) if counts.size else 0
    nse = operator.index(nse)
    sizes = mat.shape[n_batch : n_batch + n_sparse]

    def one(mask: Array, values: Array) -> Any:
        if n_sparse == 0:
            return values[None][:nse], jnp.zeros((min(nse, 1), 0), index_dtype)
        found = jnp.nonzero(mask, size=nse, fill_value=sizes)
        indices = jnp.stack(found, axis=-1).astype(index_dtype)
        return _extracted(indices, values), indices

    data, indices = nfold_vmap(one, n_batch, broadcasted=False)(stored, mat)
    return BCOO((data, indices), shape=mat.shape, indices_sorted=True, unique_indices=True)


def _extracted(indices: Array, values: Array) -> Array:
    """The values at indices, 0 beyond the array."""
    if indices.shape[-1] == 0:
        return jnp.broadcast_to(values, (indices.shape[0], *values.shape))
    return values.at[columns(indices)].get(mode="fill", fill_value=0)


def _summed(indices: Array, values: Array, sizes: Shape) -> Array:
    """An array of the sparse sizes in which values of the same index are summed; those beyond it do not count."""
    if indices.shape[-1] == 0:
        return values.sum(axis=0, dtype=values.dtype)
    out = jnp.zeros((*sizes, *values.shape[1:]), values.dtype).at[columns(indices)]
    return out.max(values, mode="drop") if values.dtype == bool else out.add(values, mode="drop")


def bcoo_todense(mat: BCOO) -> Array:
    """The array with its zeros."""
    one = lambda data, indices: _summed(indices, data, sparse_shape(mat))
    return nfold_vmap(one, mat.n_batch, broadcasted=False)(*full_batch(mat))


def bcoo_extract(sparr: BCOO, arr: Any, *, assume_unique: bool | None = None) -> BCOO:
    """The elements of a dense array where a sparse one stores some.

    Args:
        sparr: whose indices are taken.
        arr: the dense array, of the same shape.
        assume_unique: whether no index occurs twice; by default what is known of `sparr`. Of equal indices the first
            gets the element.

    Raises:
        TypeError: `sparr` is no BCOO.
        ValueError: shapes differ.
    """
    if not isinstance(sparr, BCOO):
        raise TypeError(f"First argument to bcoo_extract should be a BCOO array. Got type(sparr)={type(sparr)}")
    arr = jnp.asarray(arr)
    if arr.shape != sparr.shape:
        raise ValueError(f"shape mismatch: sparr.shape={sparr.shape} arr.shape={arr.shape}")
    unique = sparr.unique_indices if assume_unique is None else assume_unique

    def one(indices: Array, values: Array) -> Array:
        found = _extracted(indices, values)
        if unique:
            return found
        first = _first(indices, sparse_shape(sparr))
        return jnp.where(first.reshape(-1, *[1] * (found.ndim - 1)), found, jnp.zeros((), found.dtype))

    _, indices = full_batch(sparr)
    return with_data(sparr, nfold_vmap(one, sparr.n_batch, broadcasted=False)(indices, arr))


# Order, and indices that occur twice.


def _order(indices: Array, sizes: Shape) -> tuple[Array, Array]:
    """The order of indices, padding last, and the indices with all padding at the ends of the axes."""
    bound = per_axis(sizes, indices)
    beyond = ((indices >= bound) | (indices < 0)).any(axis=-1, keepdims=True)
    settled = jnp.where(beyond, bound, indices)
    if indices.shape[-1] == 0:
        return jnp.arange(indices.shape[0]), settled
    return jnp.lexsort(columns(settled)[::-1]), settled


def _groups(indices: Array, sizes: Shape) -> tuple[Array, Array, Array]:
    """The order of indices, them in this order, and whether each is another than the one before."""
    order, settled = _order(indices, sizes)
    ordered = settled[order]
    new = (ordered[1:] != ordered[:-1]).any(axis=-1)
    return order, ordered, jnp.concatenate([jnp.ones(min(1, indices.shape[0]), bool), new])


def _first(indices: Array, sizes: Shape) -> Array:
    """Whether each index is the first of those equal to it."""
    order, _, new = _groups(indices, sizes)
    return jnp.zeros(indices.shape[0], bool).at[order].set(new)


def bcoo_sort_indices(mat: BCOO) -> BCOO:
    """The array with its indices in order."""

    def one(data: Array, indices: Array) -> Any:
        order, _ = _order(indices, sparse_shape(mat))
        return data[order], indices[order]

    data, indices = nfold_vmap(one, mat.n_batch, broadcasted=False)(*full_batch(mat))
    return BCOO((data, indices), shape=mat.shape, indices_sorted=True, unique_indices=mat.unique_indices)


def bcoo_eliminate_zeros(mat: BCOO, nse: int | None = None) -> BCOO:
    """The array whose stored zeros are padding; with `nse` also summed to so many elements."""
    data, indices = full_batch(mat)
    axes = tuple(range(mat.n_batch + 1, data.ndim))
    zero = (data == 0).all(axis=axes) if axes else data == 0
    bound = per_axis(sparse_shape(mat), indices)
    emptied = BCOO((data, jnp.where(zero[..., None], bound, indices)), shape=mat.shape)
    return emptied if nse is None else bcoo_sum_duplicates(emptied, nse=nse)


def bcoo_sum_duplicates(mat: BCOO, nse: int | None = None) -> BCOO:
    """The array in which no index occurs twice, in order.

    Args:
        mat: the array.
        nse: how many elements are stored; by default as many as there are different indices, which must be known (not
            under jit). Of more, those with the highest indices are left out.
    """
    data, indices = mat.data, mat.indices  # what all of a batch have in common stays so
    sizes = sparse_shape(mat)
    if nse is None:
        different = nfold_vmap(lambda i: _count(i, sizes), mat.n_batch)(indices)
        nse = int(different.max()) if different.size else 0

    def places(indices: Array) -> Any:
        order, ordered, new = _groups(indices, sizes)
        place = jnp.cumsum(new) - 1
        bound = jnp.broadcast_to(jnp.asarray(sizes, indices.dtype), (nse, len(sizes)))
        return order, place, bound.at[place].set(ordered, mode="drop")

    def sums(data: Array, order: Array, place: Array, kept: Array) -> Array:
        summed = _summed(place[:, None], data[order], (nse,))
        inside = (kept < per_axis(sizes, kept)).all(axis=-1)
        return jnp.where(inside.reshape(-1, *[1] * (summed.ndim - 1)), summed, jnp.zeros((), summed.dtype))

    order, place, kept = nfold_vmap(places, mat.n_batch)(indices)
    data = nfold_vmap(sums, mat.n_batch)(data, order, place, kept)
    return BCOO((data, kept), shape=mat.shape, indices_sorted=True, unique_indices=True)


def _count(indices: Array, sizes: Shape) -> Array:
    """How many different indices there are, padding aside."""
    _, ordered, new = _groups(indices, sizes)
    inside = (ordered < per_axis(sizes, indices)).all(axis=-1)
    return (new & inside).sum()


# Layouts.


def bcoo_update_layout(
    mat: BCOO, *, n_batch: int | None = None, n_dense: int | None = None, on_inefficient: str | None = "error"
) -> BCOO:
    """The array with other numbers of axes of the batch and of dense axes.

    Args:
        mat: the array.
        n_batch, n_dense: the numbers; None keeps them.
        on_inefficient: what happens where more would be stored than the dense array has: "error", "warn" or None.

    Raises:
        SparseEfficiencyError: more would be stored.
        ValueError: there are not so many axes.
    """
    n_batch = mat.n_batch if n_batch is None else operator.index(n_batch)
    n_dense = mat.n_dense if n_dense is None else operator.index(n_dense)
    if n_batch < 0 or n_dense < 0 or n_batch + n_dense > mat.ndim:
        raise ValueError(f"bcoo_update_layout: n_batch={n_batch} and n_dense={n_dense} for shape {mat.shape}")
    data, indices = full_batch(mat)
    dense = math.prod(mat.shape)
    for what, before, after in (("n_batch", mat.n_batch, n_batch), ("n_dense", mat.n_dense, n_dense)):
        begin, end = (before, after) if what == "n_batch" else (mat.ndim - after, mat.ndim - before)
        cut = mat.shape[begin:end]
        if after > before and data.size * math.prod(cut) > dense:
            _inefficient(f"For matrix of shape {mat.shape}, increasing {what} from {before} to {after} results in "
                         "inefficient storage.", on_inefficient)  # fmt: skip
    for _ in range(mat.n_dense - n_dense):  # the first dense axis becomes the last sparse one
        data, indices = _dense_to_sparse(data, indices, mat.n_batch)
    for k in range(mat.n_batch - n_batch):  # the last axis of the batch becomes the first sparse one
        data, indices = _batch_to_sparse(data, indices, mat.n_batch - k)
    for axis in range(mat.n_batch, n_batch):
        data, indices = _sparse_to_batch(data, indices, axis, mat.shape[axis])
    for k in range(mat.n_dense, n_dense):
        data, indices = _sparse_to_dense(data, indices, n_batch, mat.shape[mat.ndim - 1 - k])
    return BCOO((data, indices), shape=mat.shape)


def _inefficient(message: str, action: str | None) -> None:
    advice = "set the on_inefficient argument of bcoo_update_layout to None"
    if action == "error":
        raise SparseEfficiencyError(f"{message} To disable this error, {advice}.")
    if action == "warn":
        warnings.warn(f"{message} To disable this warning, {advice}.", SparseEfficiencyWarning, stacklevel=3)


def _dense_to_sparse(data: Array, indices: Array, n_batch: int) -> tuple[Array, Array]:
    nse, size = data.shape[n_batch : n_batch + 2]
    batch = data.shape[:n_batch]
    data = data.reshape(*batch, nse * size, *data.shape[n_batch + 2 :])
    repeated = jnp.repeat(indices, size, axis=n_batch)
    last = jnp.broadcast_to(jnp.tile(jnp.arange(size, dtype=indices.dtype), nse)[:, None], (*batch, nse * size, 1))
    return data, jnp.concatenate([repeated, last], axis=-1)


def _batch_to_sparse(data: Array, indices: Array, n_batch: int) -> tuple[Array, Array]:
    size, nse = data.shape[n_batch - 1 : n_batch + 1]
    batch = data.shape[: n_batch - 1]
    first = jnp.broadcast_to(jnp.arange(size, dtype=indices.dtype)[:, None, None], (*batch, size, nse, 1))
    indices = jnp.concatenate([first, indices], axis=-1).reshape(*batch, size * nse, indices.shape[-1] + 1)
    return data.reshape(*batch, size * nse, *data.shape[n_batch + 1 :]), indices


def _sparse_to_batch(data: Array, indices: Array, n_batch: int, size: int) -> tuple[Array, Array]:
    number = jnp.arange(size, dtype=indices.dtype).reshape(*[1] * n_batch, size, 1)
    mine = jnp.expand_dims(indices[..., 0], n_batch) == number
    mine = mine.reshape(*mine.shape, *[1] * (data.ndim - n_batch - 1))
    data = jnp.where(mine, jnp.expand_dims(data, n_batch), jnp.zeros((), data.dtype))
    rest = jnp.expand_dims(indices[..., 1:], n_batch)
    return data, jnp.broadcast_to(rest, (*rest.shape[:n_batch], size, *rest.shape[n_batch + 1 :]))


def _sparse_to_dense(data: Array, indices: Array, n_batch: int, size: int) -> tuple[Array, Array]:
    mine = indices[..., -1:] == per_axis(np.arange(size), indices)
    mine = mine.reshape(*mine.shape, *[1] * (data.ndim - n_batch - 1))
    data = jnp.where(mine, jnp.expand_dims(data, n_batch + 1), jnp.zeros((), data.dtype))
    return data, indices[..., :-1]


def bcoo_transpose(mat: BCOO, *, permutation: Sequence[int]) -> BCOO:
    """The array with its axes in another order, in which those of each kind stay together.

    Raises:
        TypeError: no permutation of the axes.
        NotImplementedError: kinds of axes would mix.
    """
    permutation = tuple(map(operator.index, permutation))
    if sorted(permutation) != list(range(mat.ndim)):
        raise TypeError(
            f"transpose permutation isn't a permutation of operand dimensions, got permutation {permutation} for shape "
            f"{mat.shape}."
        )
    n, end = mat.n_batch, mat.n_batch + mat.n_sparse
    batch, sparse, dense = permutation[:n], permutation[n:end], permutation[end:]
    if sorted(batch) != list(range(n)) or sorted(sparse) != list(range(n, end)):
        raise NotImplementedError(
            f"transpose of a BCOO with {n} batch, {mat.n_sparse} sparse and {mat.n_dense} dense axes: the permutation "
            f"{permutation} mixes them. Use update_layout first."
        )
    data = mat.data.transpose(*batch, n, *(d - mat.n_sparse + 1 for d in dense))
    indices = mat.indices[..., [d - n for d in sparse]].transpose(*batch, n, n + 1)
    in_order = mat.indices_sorted and sparse == tuple(range(n, end))
    known = {"unique_indices": mat.unique_indices, "indices_sorted": in_order}
    return BCOO((data, indices), shape=[mat.shape[i] for i in permutation], **known)


# Products.


def bcoo_dot_general(
    lhs: Any, rhs: Any, *, dimension_numbers: DotDimensionNumbers, precision: None = None,
    preferred_element_type: Any = None, out_sharding: Any = None,
) -> Any:  # fmt: skip
    """`lax.dot_general` of a BCOO and an array, an array and a BCOO, or two BCOOs.

    Returns:
        An array; of two BCOOs a BCOO.
    """
    struct = lambda x: ShapeDtypeStruct(x.shape, x.dtype)
    lhs, rhs = (x if isinstance(x, BCOO) else jnp.asarray(x) for x in (lhs, rhs))
    pairs: Any = tuple(tuple(tuple(map(operator.index, side)) for side in kind) for kind in dimension_numbers)
    dot = functools.partial(
        lax.dot_general, dimension_numbers=pairs, precision=precision, preferred_element_type=preferred_element_type
    )
    out = eval_shape(dot, struct(lhs), struct(rhs))
    (lc, rc), (lb, rb) = pairs
    if isinstance(lhs, BCOO) and isinstance(rhs, BCOO):
        return _sparse_times_sparse(lhs, rhs, pairs, out)
    if isinstance(lhs, BCOO):
        return _sparse_times_dense(lhs, rhs, pairs, out.dtype)
    if not isinstance(rhs, BCOO):
        return dot(lhs, rhs)
    turned = _sparse_times_dense(rhs, lhs, ((rc, lc), (rb, lb)), out.dtype)
    batch, free = len(lb), rhs.ndim - len(lb) - len(rc)
    return jnp.moveaxis(turned, tuple(range(batch, batch + free)), tuple(range(turned.ndim - free, turned.ndim)))


def _sparse_times_dense(lhs: BCOO, rhs: Array, pairs: DotDimensionNumbers, dtype: Any) -> Array:
    (lc, rc), (lb, rb) = pairs
    if any(d >= lhs.n_batch + lhs.n_sparse for d in (*lc, *lb)):
        lhs = bcoo_update_layout(lhs, n_dense=0, on_inefficient=None)
    if not set(range(lhs.n_batch)) <= set(lb):
        lhs = bcoo_update_layout(lhs, n_batch=0, on_inefficient=None)
    n = lhs.n_batch
    # The batch of lhs in front, then what both have, then what is summed over, then what only rhs has.
    own = list(range(n))
    shared = [d for d in lb if d >= n]
    partner = dict(zip(lb, rb))
    front = [partner[d] for d in own]
    looked_up = [partner[d] for d in shared] + list(rc)
    free = [d for d in range(rhs.ndim) if d not in (*front, *looked_up)]
    rhs = rhs.transpose(*front, *looked_up, *free)
    read = [d - n for d in (*shared, *lc)]
    kept = [d for d in range(n, n + lhs.n_sparse) if d not in (*shared, *lc)]
    written = [d - n for d in (*shared, *kept)]
    sizes = tuple(lhs.shape[d] for d in (*shared, *kept))

    def one(data: Array, indices: Array, rhs: Array) -> Array:
        rows = _extracted(indices[:, read], rhs)
        across = data.reshape(*data.shape, *[1] * len(free)).astype(dtype)
        rows = rows.reshape(rows.shape[0], *[1] * (data.ndim - 1), *rows.shape[1:]).astype(dtype)
        return _summed(indices[:, written], across * rows, sizes)

    data, indices = full_batch(lhs)
    out = nfold_vmap(one, n, broadcasted=False)(data, indices, rhs)
    # The axes of the batch in the order that was asked for.
    made = [*own, *shared]
    order = [made.index(d) for d in lb]
    return out.transpose(*order, *range(len(lb), out.ndim))


def _sparse_times_sparse(lhs: BCOO, rhs: BCOO, pairs: DotDimensionNumbers, out: Any) -> BCOO:
    """All pairs of stored elements whose indices agree."""
    lhs, rhs = (bcoo_update_layout(x, n_batch=0, n_dense=0, on_inefficient=None) for x in (lhs, rhs))
    (lc, rc), (lb, rb) = pairs
    i, j = lhs.indices[:, None], rhs.indices[None]
    agree = jnp.ones((lhs.nse, rhs.nse), bool)
    for a, b in zip((*lc, *lb), (*rc, *rb)):
        agree &= (i[..., a] == j[..., b]) & (i[..., a] < lhs.shape[a])
    free_l = [d for d in range(lhs.ndim) if d not in (*lc, *lb)]
    free_r = [d for d in range(rhs.ndim) if d not in (*rc, *rb)]
    spread = lambda x: jnp.broadcast_to(x, (lhs.nse, rhs.nse))
    found = [spread(i[..., d]) for d in (*lb, *free_l)] + [spread(j[..., d]) for d in free_r]
    nse = lhs.nse * rhs.nse
    data = jnp.where(agree, lhs.data[:, None].astype(out.dtype) * rhs.data[None].astype(out.dtype), 0).reshape(nse)
    indices = jnp.stack(found, axis=-1).reshape(nse, len(found)) if found else jnp.zeros((nse, 0), lhs.indices.dtype)
    indices = jnp.where(agree.reshape(nse, 1), indices, per_axis(out.shape, indices))
    product = BCOO((data, indices), shape=out.shape)
    return bcoo_sum_duplicates(product, nse=min(nse, math.prod(out.shape)))


def bcoo_dot_general_sampled(A: Array, B: Array, indices: Array, *, dimension_numbers: DotDimensionNumbers) -> Array:
    """The elements of `lax.dot_general(A, B)` at indices (..., nse, axes of the product)."""
    product = lax.dot_general(A, B, dimension_numbers=dimension_numbers)
    return nfold_vmap(_extracted, indices.ndim - 2, broadcasted=True)(indices, product)


def bcoo_multiply_dense(sp_mat: BCOO, v: Array) -> Array:
    """The values of a BCOO times an array that broadcasts to its shape."""
    v = jnp.broadcast_to(jnp.asarray(v), sp_mat.shape) if jnp.ndim(v) else jnp.asarray(v)
    if v.ndim == 0:
        return sp_mat.data * v
    data, indices = full_batch(sp_mat)
    one = lambda data, indices, v: data * _extracted(indices, v)
    return nfold_vmap(one, sp_mat.n_batch, broadcasted=False)(data, indices, v)


def bcoo_multiply_sparse(lhs: BCOO, rhs: BCOO) -> BCOO:
    """The product of the elements of two BCOOs whose shapes broadcast; its axes are of the kinds of theirs.

    Raises:
        TypeError: they have not as many axes.
        NotImplementedError: they have not as many dense axes.
    """
    if lhs.ndim != rhs.ndim:
        raise TypeError(f"bcoo_multiply_sparse: arrays must have as many axes each, got {lhs.shape} and {rhs.shape}")
    if lhs.n_dense != rhs.n_dense:
        raise NotImplementedError(
            f"bcoo_multiply_sparse: arrays must have as many dense axes each, got {lhs} and {rhs}"
        )
    shape, n = jnp.broadcast_shapes(lhs.shape, rhs.shape), min(lhs.n_batch, rhs.n_batch)
    both = [bcoo_update_layout(x, n_batch=n, on_inefficient=None) for x in (lhs, rhs)]
    sizes = [sparse_shape(x) for x in both]
    sparse = shape[n : n + len(sizes[0])]

    def one(x: Array, i: Array, y: Array, j: Array) -> tuple[Array, Array]:
        stored = [(indices < per_axis(wide, indices)).all(axis=-1) for indices, wide in zip((i, j), sizes)]
        agree, found = stored[0][:, None] & stored[1], []
        for axis, (m, k) in enumerate(zip(*sizes)):
            a, b = jnp.broadcast_arrays(i[:, None, axis], j[None, :, axis])
            agree &= (a == b) | (m == 1 or k == 1)
            found.append(b if m == 1 else a)
        data = jnp.expand_dims(x, 1) * jnp.expand_dims(y, 0)
        data = jnp.where(jnp.expand_dims(agree, tuple(range(2, data.ndim))), data, 0)
        indices = jnp.stack(found, axis=-1) if found else jnp.zeros((*agree.shape, 0), i.dtype)
        indices = jnp.where(agree[..., None], indices, per_axis(sparse, indices))
        return data.reshape(agree.size, *data.shape[2:]), indices.reshape(agree.size, len(found))

    given = [jnp.broadcast_to(buffer, (*shape[:n], *buffer.shape[n:])) for x in both for buffer in full_batch(x)]
    data, indices = nfold_vmap(one, n, broadcasted=False)(*given)
    product = BCOO((data, indices), shape=shape)
    return bcoo_sum_duplicates(product, nse=min(product.nse, math.prod(sparse)))


# Sums and shapes.


def bcoo_reduce_sum(mat: BCOO, *, axes: Sequence[int]) -> BCOO:
    """The sum over axes of any kind; of bools it counts, in int32."""
    axes = sorted({operator.index(a) % mat.ndim for a in axes})
    data, indices = _without_padding(mat)
    data = data.astype(np.int32) if data.dtype == bool else data
    n, end = mat.n_batch, mat.n_batch + mat.n_sparse
    dense = [a - mat.n_sparse + 1 for a in axes if a >= end]
    data = data.sum(axis=tuple(dense), dtype=data.dtype) if dense else data
    batch = [a for a in axes if a < n]
    kept = [i for i in range(mat.n_sparse) if n + i not in axes]
    indices = indices[..., kept]
    if batch:  # the elements of the summed batch stand behind each other
        rest = [a for a in range(n) if a not in batch]
        data = data.transpose(*rest, *batch, *range(n, data.ndim))
        indices = indices.transpose(*rest, *batch, n, n + 1)
        count = math.prod(data.shape[len(rest) : n + 1])
        data = data.reshape(*data.shape[: len(rest)], count, *data.shape[n + 1 :])
        indices = indices.reshape(*indices.shape[: len(rest)], count, indices.shape[-1])
    shape = [size for a, size in enumerate(mat.shape) if a not in axes]
    return BCOO((data, indices), shape=shape)


def bcoo_broadcast_in_dim(
    mat: BCOO, *, shape: Shape, broadcast_dimensions: Sequence[int], sharding: Any = None
) -> BCOO:
    """As `lax.broadcast_in_dim`. Axes keep their kinds; a new one is of the kind of the axis before it, or after the
    last axis of the batch one of it. Along sparse axes that are wider than before values are repeated.
    """
    shape, dims = tuple(shape), tuple(broadcast_dimensions)
    if len(dims) != mat.ndim or any(mat.shape[i] not in (1, shape[d]) for i, d in enumerate(dims)):
        raise ValueError(f"bcoo_broadcast_in_dim: shape {mat.shape} along {dims} does not broadcast to {shape}")
    ends = mat.n_batch, mat.n_batch + mat.n_sparse
    kinds: tuple[list[int], list[int], list[int]] = [], [], []  # axes of the batch, sparse and dense ones
    for d in range(len(shape)):
        before = bisect.bisect_left(dims, d)
        place = before + 0.5 if d in dims else before  # where the last axis of a kind ends, a new one is still of it
        kinds[bisect.bisect_left(ends, place)].append(d)
    batch, sparse, dense = kinds
    repeated = [d for d in sparse if d not in dims or mat.shape[dims.index(d)] != shape[d]]
    data, indices = _without_padding(mat) if repeated else full_batch(mat)
    n, sizes = len(batch), [shape[d] for d in batch]
    kept = [batch.index(d) for d in dims[: mat.n_batch]]
    places = [*kept, n, *(n + 1 + dense.index(d) for d in dims[ends[1] :])]
    data = jnp.asarray(lax.broadcast_in_dim(data, (*sizes, mat.nse, *(shape[d] for d in dense)), places))
    indices = jnp.asarray(lax.broadcast_in_dim(indices, (*sizes, *indices.shape[mat.n_batch :]), [*kept, n, n + 1]))
    for d in repeated:
        at = sparse.index(d)
        column = jnp.tile(jnp.arange(shape[d], dtype=indices.dtype), indices.shape[n])[:, None]
        indices, data = (jnp.repeat(x, shape[d], axis=n) for x in (indices, data))
        column = jnp.broadcast_to(column, (*indices.shape[:-1], 1))
        indices = jnp.concatenate([indices[..., :at], column, indices[..., at + (d in dims) :]], axis=-1)
    return BCOO((data, indices), shape=shape, **({} if repeated else _known(mat)))


def _without_padding(mat: BCOO) -> tuple[Array, Array]:
    """Data and indices; what is padding along one sparse axis is so along all of them, and 0."""
    data, indices = full_batch(mat)
    bound = per_axis(sparse_shape(mat), indices)
    beyond = (indices >= bound).any(axis=-1, keepdims=True)
    mask = beyond[..., 0].reshape(*beyond.shape[:-1], *[1] * (data.ndim - mat.n_batch - 1))
    return jnp.where(mask, jnp.zeros((), data.dtype), data), jnp.where(beyond, bound, indices)
