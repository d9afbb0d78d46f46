"""Rows of samples for the primitives that move, combine or select elements.

A row is a function of arrays that binds one primitive (through its public function) with some parameters, operands in
float64 at which it is smooth, and the operands in which it has a derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from veery import lax

FLOATS = ("float64", "float32", "bfloat16", "float16")
COMPLEX = ("complex64", "complex128")
INTEGERS = ("int8", "int32", "int64", "uint8", "uint32")
NUMBERS = (*FLOATS, *COMPLEX, *INTEGERS)
ALL = (*NUMBERS, "bool")
REAL = (*FLOATS, *INTEGERS)
BITS = (*INTEGERS, "bool")


@dataclass(frozen=True)
class Row:
    """Samples of one primitive with one set of parameters.

    Attributes:
        primitive: its name.
        fun: of arrays, returns one array.
        operands: arrays; those in float64 are cast to the dtypes that are tried, index operands stay as they are.
        wanted: the operands in which it is differentiated; None for all in float64.
        dtypes: the dtypes it takes.
        second: whether second derivatives are compared too.
        batched: whether it is batched.
        reverse: whether it has a reverse-mode derivative.
    """

    primitive: str
    fun: Callable[..., Any]
    operands: tuple[np.ndarray, ...]
    wanted: tuple[int, ...] | None = None
    dtypes: tuple[str, ...] = NUMBERS
    second: bool = True
    batched: bool = True
    reverse: bool = True

    @property
    def differentiated(self) -> tuple[int, ...]:
        if self.wanted is not None:
            return self.wanted
        return tuple(i for i, x in enumerate(self.operands) if x.dtype == np.float64)

    def cast(self, dtype: str) -> tuple[np.ndarray, ...]:
        """The operands in another dtype."""
        return tuple(convert(x, dtype) if x.dtype == np.float64 else x for x in self.operands)


def convert(x: np.ndarray, dtype: str) -> np.ndarray:
    """Values of x that fit the dtype: integers are spread out, bools are the sign."""
    from veery._core import dtypes

    kind = dtypes.as_dtype(dtype) if dtype != "bfloat16" else np.dtype(dtypes.bfloat16)
    if kind == np.bool_:
        return x > 0
    if kind.kind == "u":
        return np.abs(np.round(x * 3)).astype(kind)
    if kind.kind == "i":
        return np.round(x * 3).astype(kind)
    if kind.kind == "c":
        return (x + 1j * np.roll(x, 1)).astype(kind)
    return x.astype(kind)


_rng = np.random.default_rng(0)


def real(*shape: int) -> np.ndarray:
    """Distinct values around [-2, 2], none near zero, far apart; others at each call, so that operands do not tie."""
    count = int(np.prod(shape, dtype=int))
    values = np.linspace(0.2, 2.0, count) + _rng.uniform(0, 0.02) if count else np.zeros(0)
    return (_rng.permutation(values) * _rng.choice([-1.0, 1.0], count)).reshape(shape)


def ints(*values: Any) -> np.ndarray:
    return np.array(values, np.int32)


ROWS: list[Row] = []


def row(primitive: str, fun: Callable[..., Any], *operands: np.ndarray, **options: Any) -> None:
    """Add a row."""
    ROWS.append(Row(primitive, fun, operands, **options))


def rows(primitive: str, fun: Callable[..., Any], shapes: Sequence[tuple[int, ...]], **options: Any) -> None:
    """Add a row for each shape of a single operand."""
    for shape in shapes:
        row(primitive, fun, real(*shape), **options)


# shape

rows("broadcast_in_dim", lambda x: lax.broadcast_in_dim(x, (2, 3, 4), (1,)), [(3,), (1,)], dtypes=ALL)
row("broadcast_in_dim", lambda x: lax.broadcast_in_dim(x, (4, 2, 3), (2, 0)), real(3, 4), dtypes=ALL)
row("broadcast_in_dim", lambda x: lax.broadcast_in_dim(x, (0, 2), ()), real(), dtypes=ALL)
row("broadcast_in_dim", lambda x: lax.broadcast_in_dim(x, (4, 2, 3), (2, 0)), real(1, 4), dtypes=ALL)
rows("reshape", lambda x: lax.reshape(x, (3, 4)), [(12,), (2, 6), (1, 12, 1)], dtypes=ALL)
row("reshape", lambda x: lax.reshape(x, (0, 5)), real(2, 0), dtypes=ALL)
row("reshape", lambda x: lax.reshape(x, (6,), (1, 0)), real(2, 3), dtypes=ALL)
row("squeeze", lambda x: lax.squeeze(x, (0, 2)), real(1, 3, 1, 2), dtypes=ALL)
row("squeeze", lambda x: lax.squeeze(x, (-1,)), real(1), dtypes=ALL)
row("transpose", lambda x: lax.transpose(x, (2, 0, 1)), real(2, 3, 4), dtypes=ALL)
row("transpose", lambda x: lax.transpose(x, ()), real(), dtypes=ALL)
row("concatenate", lambda *xs: lax.concatenate(xs, 1), real(2, 1), real(2, 3), real(2, 0), dtypes=ALL)
row("concatenate", lambda *xs: lax.concatenate(xs, 0), real(2), real(3), dtypes=ALL)
row("split", lambda x: lax.split(x, (2, 0, 3), 1)[2], real(2, 5), dtypes=ALL)
row("split", lambda x: lax.split(x, (1, 2))[0], real(3), dtypes=ALL)
row("pad", lambda x, v: lax.pad(x, v, [(1, 2, 1), (0, 1, 0)]), real(3, 2), real(), dtypes=ALL)
row("pad", lambda x, v: lax.pad(x, v, [(-1, -2, 2)]), real(4), real(), dtypes=ALL)
row("pad", lambda x, v: lax.pad(x, v, [(2, -1, 0), (-1, 3, 1)]), real(3, 2), real(), dtypes=ALL)
row("pad", lambda x, v: lax.pad(x, v, [(1, 1, 3)]), real(0), real(), dtypes=ALL)
rows("rev", lambda x: lax.rev(x, (0,)), [(5,), (2, 3), (0,)], dtypes=ALL)
row("rev", lambda x: lax.rev(x, (2, 0)), real(2, 3, 4), dtypes=ALL)
rows("copy", lambda x: lax.copy_p.bind(x), [(), (5,)], dtypes=ALL)
row("optimization_barrier", lambda x: lax.optimization_barrier((x, np.int32(1)))[0], real(3), dtypes=ALL)
row("iota", lambda: lax.broadcasted_iota("int32", (3, 2), 0), batched=False)
row("broadcast_in_dim", lambda x: lax.tile(x, (2, 3)), real(3, 2), dtypes=ALL)
row("concatenate", lambda x, y: lax.stack([x, y], 1), real(3, 2), real(3, 2), dtypes=ALL)
row("split", lambda x: lax.unstack(x, 1)[1], real(3, 2), dtypes=ALL)

# reductions

for _shape, _axes in [((), ()), ((5,), (0,)), ((2, 3, 4), (0, 2)), ((2, 3), ()), ((3, 0), (1,)), ((7, 3), (0,))]:
    row("reduce_sum", lambda x, axes=_axes: lax.reduce_sum(x, axes), real(*_shape))
    row("reduce_prod", lambda x, axes=_axes: lax.reduce_prod(x, axes), real(*_shape))
    row("reduce_and", lambda x, axes=_axes: lax.reduce_and(x, axes), real(*_shape), wanted=(), dtypes=BITS)
    row("reduce_or", lambda x, axes=_axes: lax.reduce_or(x, axes), real(*_shape), wanted=(), dtypes=BITS)
    row("reduce_xor", lambda x, axes=_axes: lax.reduce_xor(x, axes), real(*_shape), wanted=(), dtypes=BITS)
    _extreme = () if 0 in _shape else None
    row("reduce_max", lambda x, axes=_axes: lax.reduce_max(x, axes), real(*_shape), wanted=_extreme, dtypes=REAL)
    row("reduce_min", lambda x, axes=_axes: lax.reduce_min(x, axes), real(*_shape), wanted=_extreme, dtypes=REAL)
_zeros = np.array([[1.5, 0.0, -2.0, 0.5], [0.0, 3.0, 0.0, 1.0]])
row("reduce_prod", lambda x: lax.reduce_prod(x, (1,)), _zeros)
rows("argmax", lambda x: lax.argmax(x, 0, "int32"), [(5,), (4, 3)], wanted=(), dtypes=(*REAL, "bool"))
rows("argmin", lambda x: lax.argmin(x, 0, "int64"), [(5,), (4, 3)], wanted=(), dtypes=(*REAL, "bool"))


def _affine(a: Any, b: Any) -> Any:
    """Composition of the maps x -> scale x + shift: associative, not commutative."""
    return lax.mul(a[0], b[0]), lax.add(lax.mul(b[0], a[1]), b[1])


_one, _zero = np.ones(()), np.zeros(())
rows("reduce", lambda x: lax.reduce(x, _zero.astype(x.dtype), _plus_product, (0,)), [(5,), (4, 3)], dtypes=FLOATS)
row("reduce", lambda x, i: lax.reduce(x, i, lax.add, (1,)), real(2, 3), real(), dtypes=FLOATS)
row(
    "reduce",
    lambda a, b: lax.reduce((a, b), (_one.astype(a.dtype), _zero.astype(a.dtype)), _affine, (1,))[1],
    real(2, 5),
    real(2, 5),
    dtypes=FLOATS,
)


def _plus_product(x: Any, y: Any) -> Any:
    """x + y + x y = (1 + x)(1 + y) - 1: associative, with 0 neutral."""
    return lax.add(lax.add(x, y), lax.mul(x, y))


# running reductions

for _reverse in (False, True):
    for _name, _kinds in (("cumsum", NUMBERS), ("cumprod", NUMBERS), ("cummax", REAL), ("cummin", REAL)):
        _fun = getattr(lax, _name)
        rows(_name, lambda x, f=_fun, r=_reverse: f(x, 0, r), [(6,), (5, 2), (1,)], dtypes=_kinds)
        row(_name, lambda x, f=_fun, r=_reverse: f(x, 1, r), real(2, 7), dtypes=_kinds)
    rows("cumlogsumexp", lambda x, r=_reverse: lax.cumlogsumexp(x, 0, r), [(6,), (5, 2)], dtypes=FLOATS)
row("cumprod", lambda x: lax.cumprod(x, 1), _zeros)
row("cumsum", lambda x: lax.cumsum(x, 0), real(0, 3))

# contractions

_MATRIX = (((1,), (0,)), ((), ()))
row("dot_general", lambda a, b: lax.dot_general(a, b, _MATRIX), real(3, 4), real(4, 2), dtypes=(*NUMBERS, "bool"))
row("dot_general", lambda a, b: lax.dot(a, b), real(4), real(4))
row("dot_general", lambda a, b: lax.dot_general(a, b, (((), ()), ((), ()))), real(2), real(3, 2))
row("dot_general", lambda a, b: lax.batch_matmul(a, b), real(2, 3, 4), real(2, 4, 5))
row(
    "dot_general",
    lambda a, b: lax.dot_general(a, b, (((3, 1), (0, 2)), ((0,), (3,)))),
    real(2, 3, 4, 5),
    real(5, 2, 3, 2),
)
row("dot_general", lambda a, b: lax.dot_general(a, b, (((1,), (1,)), ((2, 0), (0, 2)))), real(2, 3, 4), real(4, 3, 2))
row("dot_general", lambda a, b: lax.dot_general(a, b, _MATRIX), real(3, 0), real(0, 2))

# slices

row("slice", lambda x: lax.slice(x, (1, 0), (4, 3)), real(5, 3), dtypes=ALL)
row("slice", lambda x: lax.slice(x, (1, 0), (5, 3), (2, 3)), real(5, 3), dtypes=ALL)
row("slice", lambda x: lax.slice(x, (2,), (2,), (2,)), real(4), dtypes=ALL)
row("slice", lambda x: lax.slice_in_dim(x, -4, -1, 2, 1), real(2, 5), dtypes=ALL)
row("slice", lambda x: lax.index_in_dim(x, -1, 0, False), real(4, 2), dtypes=ALL)
row("dynamic_slice", lambda x, i: lax.dynamic_slice(x, i, (2, 3)), real(4, 5), ints(1, 1), dtypes=ALL)
row("dynamic_slice", lambda x, i: lax.dynamic_slice(x, i, (2, 3)), real(4, 5), ints(3, -1), dtypes=ALL)
row("dynamic_slice", lambda x, i: lax.dynamic_index_in_dim(x, i, 1, False), real(4, 5), ints(-2)[0], dtypes=ALL)
row("dynamic_slice", lambda x, i: lax.dynamic_slice(x, i, (0,)), real(4), ints(3), dtypes=ALL)
row(
    "dynamic_update_slice",
    lambda x, u, i: lax.dynamic_update_slice(x, u, i),
    real(4, 5),
    real(2, 3),
    ints(1, 1),
    dtypes=ALL,
)
row(
    "dynamic_update_slice",
    lambda x, u, i: lax.dynamic_update_slice(x, u, i),
    real(4, 5),
    real(2, 3),
    ints(9, -1),
    dtypes=ALL,
)
row(
    "dynamic_update_slice",
    lambda x, u, i: lax.dynamic_update_index_in_dim(x, u, i, 1),
    real(4, 5),
    real(4),
    ints(2)[0],
    dtypes=ALL,
)

# gather and scatter

_ROWS = lax.GatherDimensionNumbers((1,), (0,), (0,))
_ELEMENTS = lax.GatherDimensionNumbers((), (0, 1), (0, 1))
_WINDOWS = lax.GatherDimensionNumbers((1, 2), (), (1, 0))
_ALONG = lax.GatherDimensionNumbers((1,), (1,), (1,), (0,), (0,))
_MODES = ("clip", "fill", "promise_in_bounds")
_row_indices = ints([3], [0], [3], [1])
_row_outside = ints([3], [-1], [4], [1])
GATHERS = [
    (_ROWS, (1, 3), (4, 3), _row_indices, _row_outside),
    (_ELEMENTS, (1, 1), (4, 3), ints([[0, 1], [3, 2]], [[1, 1], [0, 1]]), ints([[0, 3], [4, 2]], [[-1, 1], [0, 1]])),
    (_WINDOWS, (2, 2), (4, 3), ints([0, 1], [1, 2]), ints([0, 3], [-1, 2], [2, 0])),
    (_ALONG, (1, 1, 2), (3, 4, 2), ints([1], [3], [0]), ints([4], [3], [-1])),
    # an index vector of nothing, for which the window begins at zero
    (lax.GatherDimensionNumbers((0, 1), (), ()), (2, 3), (4, 3), *[np.zeros((1, 0), np.int32)] * 2),
]
for _numbers, _sizes, _shape, _inside, _outside in GATHERS:
    for _mode in _MODES:
        _indices = _inside if _mode == "promise_in_bounds" else _outside
        row(
            "gather",
            lambda x, i, n=_numbers, s=_sizes, m=_mode: lax.gather(x, i, n, s, mode=m, fill_value=7),
            real(*_shape),
            _indices,
            dtypes=ALL,
        )


for _numbers, _sizes, _shape in [
    (lax.GatherDimensionNumbers((1,), (1,), ()), (2, 1), (4, 3)),
    (lax.GatherDimensionNumbers((2,), (), (), (0,), (1,)), (1, 2), (3, 4)),
    (lax.GatherDimensionNumbers((), (), ()), (), ()),
]:
    for _mode in _MODES:
        row(
            "gather",
            lambda x, n=_numbers, s=_sizes, m=_mode: lax.gather(x, np.zeros((2, 3, 0), np.int32), n, s, mode=m),
            real(*_shape),
            dtypes=ALL,
        )


def _update_shape(numbers: Any, sizes: tuple[int, ...], indices: np.ndarray) -> tuple[int, ...]:
    removed = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    windows, batch = iter([n for i, n in enumerate(sizes) if i not in removed]), iter(indices.shape[:-1])
    rank = len(numbers.offset_dims) + indices.ndim - 1
    return tuple(next(windows if i in numbers.offset_dims else batch) for i in range(rank))


for _numbers, _sizes, _shape, _inside, _outside in GATHERS:
    for _mode in _MODES:
        _indices = _inside if _mode == "promise_in_bounds" else _outside
        _mirror = lax.ScatterDimensionNumbers(*_numbers)
        for _name in ("scatter", "scatter_add", "scatter_sub", "scatter_mul", "scatter_min", "scatter_max"):
            _fun = getattr(lax, _name)
            row(
                _name,
                lambda x, u, i, f=_fun, n=_mirror, m=_mode: f(x, i, u, n, mode=m),
                real(*_shape),
                real(*_update_shape(_numbers, _sizes, _indices)),
                _indices,
                wanted=(0,) if _name == "scatter_mul" else None,
                dtypes=ALL if _name == "scatter" else REAL if _name[-3:] in ("min", "max") else NUMBERS,
            )
_unique = ints([3], [0], [2])
for _name in ("scatter", "scatter_mul"):
    _fun = getattr(lax, _name)
    row(
        _name,
        lambda x, u, i, f=_fun: f(x, i, u, lax.ScatterDimensionNumbers((1,), (0,), (0,)), unique_indices=True),
        real(4, 3),
        real(3, 3),
        _unique,
        dtypes=NUMBERS,
    )

# sorting

rows("sort", lambda x: lax.sort(x), [(6,), (3, 5), (1,), (0,)], dtypes=(*REAL, *COMPLEX, "bool"))
row("sort", lambda x: lax.sort(x, 0), real(5, 3), dtypes=REAL)
row("sort", lambda k, v: lax.sort((k, v), num_keys=1)[1], real(2, 5), real(2, 5), dtypes=REAL)
row("sort", lambda k, v: lax.sort((k, v), num_keys=2)[0], real(2, 5), real(2, 5), dtypes=REAL)
row("sort", lambda k, v: lax.sort_key_val(k, v)[1], ints(2, 0, 2, 1), real(4), dtypes=REAL)
rows("top_k", lambda x: lax.top_k(x, 3)[0], [(6,), (2, 5)], dtypes=REAL)
rows("top_k", lambda x: lax.top_k(x, 2)[0], [(0, 3), (2, 0, 2)], dtypes=REAL)
row("top_k", lambda x: lax.top_k(x, 0)[0], real(2, 3), dtypes=REAL)
row("top_k", lambda x: lax.top_k(x, 2, axis=0)[0], real(4, 2), dtypes=REAL)
row("top_k", lambda x: lax.top_k(x, 2)[1], real(3, 4), wanted=(), dtypes=REAL)
row("top_k", lambda x: lax.approx_min_k(x, 2)[0], real(3, 4), dtypes=FLOATS)

# convolutions

CONVOLUTIONS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 6), (4, 3, 3), {"window_strides": (1,), "padding": "SAME"}),
    ((2, 3, 7), (4, 3, 2), {"window_strides": (2,), "padding": [(1, 2)], "rhs_dilation": (2,)}),
    ((2, 3, 5), (4, 3, 3), {"window_strides": (1,), "padding": [(2, -1)], "lhs_dilation": (2,)}),
    ((1, 2, 5, 6), (3, 2, 2, 3), {"window_strides": (2, 1), "padding": "VALID"}),
    ((1, 4, 5, 4), (6, 2, 2, 2), {"window_strides": (1, 2), "padding": "SAME", "feature_group_count": 2}),
    ((2, 3, 4, 4), (3, 1, 2, 2), {"window_strides": (1, 1), "padding": "SAME", "feature_group_count": 3}),
    ((2, 3, 5), (6, 1, 3), {"window_strides": (1,), "padding": "SAME", "feature_group_count": 3}),
    ((4, 2, 5, 4), (6, 2, 2, 2), {"window_strides": (1, 2), "padding": "SAME_LOWER", "batch_group_count": 2}),
    ((3, 1, 3, 5), (3, 1, 3, 3), {"window_strides": (1, 1), "padding": "SAME", "batch_group_count": 3}),
    ((2, 2, 3, 3, 3), (2, 2, 2, 2, 2), {"window_strides": (1, 1, 1), "padding": "VALID"}),
    ((2, 3), (4, 3), {"window_strides": (), "padding": "VALID"}),
    ((2, 3, 2), (4, 3, 3), {"window_strides": (1,), "padding": "VALID"}),
]
for _lhs, _rhs, _params in CONVOLUTIONS:
    row(
        "conv_general_dilated",
        lambda x, k, p=_params: lax.conv_general_dilated(x, k, **p),
        real(*_lhs),
        real(*_rhs),
        dtypes=(*FLOATS, *COMPLEX, "int32"),
    )
row(
    "conv_general_dilated",
    lambda x, k: lax.conv_general_dilated(
        x, k, (2, 1), [(1, 0), (0, 2)], (1, 2), (2, 1), ("NHWC", "WIOH", "CWNH"), feature_group_count=2
    ),
    real(2, 5, 4, 4),
    real(2, 2, 6, 3),
    dtypes=FLOATS,
)
row("conv_general_dilated", lambda x, k: lax.conv_transpose(x, k, (2,), "SAME"), real(2, 4, 3), real(3, 3, 2))
row(
    "conv_general_dilated",
    lambda x: lax.conv_general_dilated_patches(x, (2, 2), (1, 1), "VALID"),
    real(1, 2, 3, 4),
    dtypes=FLOATS,
)

# windows

WINDOWS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((7,), (3,), {}),
    ((5, 6), (2, 3), {"window_strides": (2, 1), "padding": "SAME"}),
    ((6,), (2,), {"window_dilation": (2,), "padding": [(1, 1)]}),
    ((4,), (3,), {"base_dilation": (2,), "padding": [(2, 0)], "window_strides": (2,)}),
    ((6,), (2,), {"padding": [(-1, 1)]}),
    ((2,), (3,), {}),
]
for _shape, _window, _params in WINDOWS:
    for _name, _function, _init in (
        ("reduce_window_sum", lax.add, lambda dtype: np.zeros((), dtype)),
        ("reduce_window_max", lax.max, lambda dtype: np.asarray(-np.inf).astype(dtype)),
        ("reduce_window_min", lax.min, lambda dtype: np.asarray(np.inf).astype(dtype)),
        ("reduce_window", lax.mul, lambda dtype: np.ones((), dtype)),
    ):
        row(
            _name,
            lambda x, f=_function, i=_init, w=_window, p=_params: lax.reduce_window(x, i(x.dtype), f, w, **p),
            real(*_shape),
            dtypes=FLOATS,
        )
row("reduce_window", lambda x, i: lax.reduce_window(x, i, lax.add, (2,)), real(4), real(), dtypes=FLOATS)
row(
    "reduce_window",
    lambda x, i: lax.reduce_window(x, i, lax.mul, (2,), padding=[(2, 1)], base_dilation=(2,)),
    real(3),
    real(),
    dtypes=FLOATS,
)
for _prim in (lax.ge_p, lax.le_p):
    _windows = {
        "window_dimensions": (2, 3),
        "window_strides": (1, 2),
        "padding": ((1, 0), (0, 1)),
        "select_prim": _prim,
    }
    row(
        "select_and_gather_add",
        lambda t, x, p=_windows: lax.select_and_gather_add_p.bind(t, x, **p),
        real(4, 6),
        real(4, 6),
        wanted=(0,),
        dtypes=FLOATS,
    )
    row(
        "select_and_scatter_add",
        lambda s, x, p=_windows: lax.select_and_scatter_add_p.bind(s, x, **p),
        real(4, 3),
        real(4, 6),
        wanted=(0,),
        dtypes=FLOATS,
    )
