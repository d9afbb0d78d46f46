"""All functions of veery.numpy, linalg and fft: calls that run on NumPy, JAX and veery alike, with operands for them.

Each row is evaluated in all of its dtypes on its first shapes, and in float32 on the others.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

DTYPES = ("bool", "int8", "int32", "uint8", "float16", "bfloat16", "float32", "complex64")
NOT_BFLOAT16 = tuple(d for d in DTYPES if d != "bfloat16")
INTEGERS = ("int8", "int32", "uint8")
Shapes = tuple[tuple[int, ...], ...]  # one for each operand


class Row(NamedTuple):
    """A call.

    Attributes:
        name: the public function that it tests.
        call: takes a module and arrays, returns arrays.
        shapes: of the operands, for several runs.
        domain: where the operands' values lie: a key of DOMAINS.
        reference: what NumPy computes, where that is not the same call.
        dtypes: the dtypes to run it in.
        exact: whether NumPy is to compute in the operands' own dtype, as the result depends on it.
    """

    name: str
    call: Callable[..., Any]
    shapes: Sequence[Shapes]
    domain: str = "any"
    reference: Callable[..., Any] | None = None
    dtypes: Sequence[str] = DTYPES
    exact: bool = False

    def cases(self) -> list[tuple[str, Shapes]]:
        """(dtype, shapes) of each run."""
        return [(d, self.shapes[0]) for d in self.dtypes] + [("float32", s) for s in self.shapes[1:]]


def public_functions(module: Any) -> set[str]:
    """The names of the functions of veery.numpy, its linalg and fft that are JAX's."""
    recorded = json.loads((Path(__file__).parents[1] / "interface/signatures.json").read_text())
    spaces = {"": module, "linalg.": module.linalg, "fft.": module.fft}
    named = {prefix + name for prefix in spaces for name in recorded[f"jax.numpy.{prefix}".strip(".")]}
    return {name for name in named if is_function(attrgetter(name)(module))}


def is_function(value: Any) -> bool:
    return callable(value) and not isinstance(value, type)


DOMAINS: dict[str, tuple[float, float]] = {
    "any": (-3.5, 3.5),
    "positive": (0.5, 4.5),
    "unit": (-0.9, 0.9),
    "above 1": (1.2, 5.0),
    "index": (0.0, 2.9),
}
AWKWARD = (0.0, -0.0, np.inf, -np.inf, np.nan)


def operands(dtype: str, shapes: Shapes, domain: str = "any", seed: int = 0) -> list[np.ndarray]:
    """Arrays of these shapes; those of real floats anywhere have zeros of both signs, infinities and NaN among them."""
    rng = np.random.default_rng(seed)
    low, high = DOMAINS[domain.removesuffix(" finite")]
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    made = []
    for shape in shapes:
        x = rng.uniform(low, high, shape)
        if dtype in ("float16", "bfloat16", "float32") and domain == "any" and x.size > 6:
            x.ravel()[rng.permutation(x.size)[:5]] = AWKWARD
        if kind.kind == "c":
            x = x + 1j * rng.uniform(low, high, shape)
        elif kind.kind == "b":
            x = x > (low + high) / 2 if low < 1 else x > 0
        elif kind.kind == "u":
            x = np.abs(x)
        made.append(x.astype(kind))
    return made


def put(module: Any, name: str, x: Any, *args: Any) -> Any:
    """NumPy's functions that write into their argument, on a copy."""
    if module is not np:
        return getattr(module, name)(x, *(np.asarray(a) if isinstance(a, list) else a for a in args), inplace=False)
    x = np.array(x)
    getattr(np, name)(x, *args)
    return x


def padded(x: np.ndarray, size: int, fill: int) -> np.ndarray:
    """x with its first dimension brought to a size."""
    return np.concatenate([x[:size], np.full((max(0, size - len(x)), *x.shape[1:]), fill, x.dtype)])


def all_padded(xs: Any, size: int, fill: int) -> Any:
    return tuple(padded(x, size, fill) for x in xs) if isinstance(xs, tuple) else padded(xs, size, fill)


def regular(x: Any) -> Any:
    """Matrices x that are added to a diagonal, such that their eigenvalues are distinct and far from 0."""
    return x + np.diag(np.arange(3, 3 + x.shape[-1])).astype(x.dtype)


def hermitian(x: Any) -> Any:
    return regular(x + x.swapaxes(-1, -2).conj())


def unique(name: str, x: np.ndarray) -> Any:
    """What the array API's functions give, of size 4; NumPy's own need not sort."""
    values, indices, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    indices, counts, values = padded(indices, 4, indices[0]), padded(counts, 4, 0), padded(values, 4, 3)
    parts = {
        "unique_all": (values, indices, inverse.reshape(x.shape), counts),
        "unique_counts": (values, counts),
        "unique_inverse": (values, inverse.reshape(x.shape)),
    }
    return parts.get(name, values)


MASK = np.arange(15).reshape(3, 5) % 3 == 1
UNARY: list[Shapes] = [((3, 5),), ((),), ((0,),), ((7,),), ((2, 0, 3),)]
BINARY: list[Shapes] = [((3, 5), (5,)), ((), ()), ((0,), (1,)), ((7,), ()), ((2, 1, 3), (4, 1)), ((0, 3), (3,))]
MATRIX: list[Shapes] = [((3, 5),), ((1, 1),), ((0, 2),), ((2, 3, 4),)]
ARRAY: list[Shapes] = [((2, 3, 4),), ((1, 1, 1),), ((2, 0, 3),)]


def rows(names: str, *calls: Callable[..., Any], **options: Any) -> list[Row]:
    """A row for each function and call; the calls take the function and the operands. Without calls it is called."""
    options.setdefault("shapes", UNARY)
    return [
        Row(name, lambda np, *xs, function=attrgetter(name), call=call: call(function(np), *xs), **options)
        for name in names.split()
        for call in calls or [lambda f, *xs: f(*xs)]
    ]


def full(names: str, *calls: Callable[..., Any], **options: Any) -> list[Row]:
    """As `rows`, of calls that take the module first."""
    options.setdefault("shapes", UNARY)
    return [Row(name, call, **options) for name in names.split() for call in calls]


AXES = [lambda f, x: f(x), lambda f, x: f(x, axis=-1), lambda f, x: f(x, axis=0, keepdims=True)]
SQUARE: list[Shapes] = [((4, 4),), ((2, 3, 3),), ((1, 1),), ((0, 0),)]
TALL: list[Shapes] = [((5, 3),), ((2, 4, 3),)]
REDUCED: list[Shapes] = [((3, 5),), ((0, 3),), ((1, 1),), ((7,),)]

ROWS = [
    # Elementwise, of one array.
    *rows("sin cos arctan atan sinh cosh tanh arcsinh asinh exp exp2 expm1 square negative positive"),
    *rows("tan sinc i0 deg2rad rad2deg degrees radians"),
    *rows("log log2 log10 log1p sqrt cbrt reciprocal", domain="positive"),
    *rows("arcsin asin arccos acos arctanh atanh", domain="unit"),
    *rows("arccosh acosh", domain="above 1"),
    *rows("abs absolute conj conjugate real imag angle fabs"),
    *rows("nan_to_num", exact=True, dtypes=NOT_BFLOAT16),
    *rows("floor ceil trunc rint round around sign signbit isposinf isneginf"),
    *rows("fix", dtypes=("int32", "float32")),
    *rows("isnan isinf isfinite iscomplex isreal logical_not"),
    *rows("invert bitwise_not bitwise_invert bitwise_count"),
    *rows("spacing", exact=True),
    *rows("frexp"),
    *rows("modf", domain="any finite"),
    *rows("round around", lambda f, x: f(x, 1), dtypes=DTYPES[1:]),
    # Elementwise, of two arrays.
    *rows("add subtract multiply maximum minimum fmax fmin", shapes=BINARY),
    *rows("divide true_divide floor_divide remainder mod fmod", shapes=BINARY, domain="above 1"),
    *rows("divmod", shapes=BINARY, domain="above 1"),
    *rows("power pow float_power", shapes=BINARY, domain="positive"),
    *rows("equal not_equal less less_equal greater greater_equal", shapes=BINARY),
    *rows("logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor", shapes=BINARY),
    *rows("left_shift right_shift bitwise_left_shift bitwise_right_shift", shapes=BINARY, domain="index"),
    *rows("arctan2 atan2 hypot copysign logaddexp logaddexp2", shapes=BINARY),
    *rows("heaviside gcd lcm isclose", shapes=BINARY),
    *rows("nextafter", shapes=BINARY, exact=True),
    *full("ldexp", lambda np, x: np.ldexp(x, np.array(3, "int32"))),
    # Reductions.
    *rows("sum prod max min amax amin mean var std nansum nanprod nanmax nanmin", *AXES, shapes=REDUCED),
    *rows("nanmean nanvar nanstd median nanmedian ptp", *AXES, shapes=REDUCED),
    *rows("all any count_nonzero argmax argmin", *AXES, shapes=REDUCED),
    *rows("nanargmax nanargmin", *AXES, shapes=REDUCED, domain="positive"),
    *rows("sum prod nansum nanprod", lambda f, x: f(x, axis=1, initial=2, where=np.arange(5) > 1), shapes=REDUCED[:1]),
    *rows("max min nanmax nanmin", lambda f, x: f(x, axis=1, initial=1, where=np.arange(5) > 1), shapes=REDUCED[:1]),
    *rows("sum prod mean", lambda f, x: f(x, axis=(0, 1), dtype="float32"), shapes=REDUCED[:1]),
    *rows("mean var std", lambda f, x: f(x, axis=1, where=np.arange(5) > 1), shapes=REDUCED[:1]),
    *rows("var std nanvar nanstd", lambda f, x: f(x, axis=1, ddof=1), shapes=REDUCED[:1]),
    *rows(
        "quantile nanquantile",
        lambda f, x: f(x, 0.3),
        lambda f, x: f(x, 0.5, axis=0),
        domain="any finite",
        shapes=REDUCED[:1],
    ),
    *rows(
        "percentile nanpercentile",
        lambda f, x: f(x, 30.0),
        lambda f, x: f(x, 50.0, axis=0),
        domain="any finite",
        shapes=REDUCED[:1],
    ),
    *rows("quantile percentile", lambda f, x: f(x, 0.25, axis=1, keepdims=True), shapes=[((3, 7),)], domain="positive"),
    *rows("average", lambda f, x: f(x), lambda f, x: f(x, axis=1, weights=abs(x) + 1), shapes=REDUCED[:1]),
    *rows("cov corrcoef", domain="positive", shapes=[((3, 5),), ((7,),)]),
    *rows("cov corrcoef", lambda f, x: f(x, rowvar=False), domain="positive", shapes=[((3, 5),)]),
    # Along an axis.
    *rows("cumsum cumprod nancumsum nancumprod", lambda f, x: f(x), lambda f, x: f(x, axis=-1), shapes=REDUCED),
    *rows("cumulative_sum cumulative_prod", lambda f, x: f(x, axis=-1, include_initial=True), shapes=REDUCED),
    *rows("diff", lambda f, x: f(x), lambda f, x: f(x, n=2, axis=0, prepend=x[:1]), shapes=[((3, 5),), ((2, 0),)]),
    *rows("ediff1d", lambda f, x: f(x), lambda f, x: f(x, to_begin=x[0, :2], to_end=x[1, :1]), shapes=[((3, 5),)]),
    *rows("gradient", lambda f, x: tuple(f(x)), lambda f, x: f(x, 2.0, axis=1), shapes=[((3, 5),)]),
    *rows("trapezoid", lambda f, x: f(x), lambda f, x: f(x, dx=0.5, axis=0), shapes=[((3, 5),), ((7,),)]),
    *rows("unwrap", lambda f, x: f(4 * x), domain="unit", shapes=[((3, 5),)]),
    *rows("sort", lambda f, x: f(x), lambda f, x: f(x, axis=0), lambda f, x: f(x, axis=None), shapes=REDUCED),
    *rows(
        "argsort",
        lambda f, x: f(x, stable=True),
        lambda f, x: f(x, axis=0, stable=True),
        shapes=REDUCED,
    ),
    *rows("sort_complex", lambda f, x: f(x), shapes=[((7,),), ((0,),)]),
    *rows("partition", lambda f, x: f(x, 2)[..., 2], shapes=[((3, 5),)]),
    *full(
        "argpartition",
        lambda np, x: np.take_along_axis(x, np.argpartition(x, 2), 1)[:, 2],
        shapes=[((3, 5),)],
    ),
    *rows("lexsort", lambda f, x: f((x[0], x[1])), shapes=[((2, 7),)], domain="index"),
    *full(
        "searchsorted",
        lambda np, x, y: np.searchsorted(np.sort(x), y),
        shapes=[((7,), (3, 2)), ((0,), (3,))],
    ),
    *full(
        "searchsorted",
        lambda np, x, y: np.searchsorted(np.sort(x), y, side="right"),
        shapes=[((7,), (7,))],
    ),
    *rows("flip", lambda f, x: f(x), lambda f, x: f(x, axis=(0, -1)), shapes=ARRAY),
    *rows("fliplr flipud", shapes=MATRIX),
    *rows("roll", lambda f, x: f(x, 2), lambda f, x: f(x, (1, -2), (0, 2)), lambda f, x: f(x, -7, 1), shapes=ARRAY),
    *rows("rot90", lambda f, x: f(x), lambda f, x: f(x, 2, (2, 1)), lambda f, x: f(x, -1), shapes=ARRAY),
    # Shapes.
    *rows(
        "reshape",
        lambda f, x: f(x, (-1, x.shape[-1] or 1)),
        lambda f, x: f(x, x.shape[::-1], order="F"),
        shapes=[((2, 3, 4),), ((1, 1, 1),)],
    ),
    *rows("ravel", lambda f, x: f(x), lambda f, x: f(x, order="F"), shapes=UNARY),
    *rows("transpose permute_dims", lambda f, x: f(x, (1, 2, 0)), lambda f, x: f(x, (-1, 0, -2)), shapes=ARRAY),
    *rows("transpose"),
    *rows("matrix_transpose", shapes=MATRIX),
    *rows("swapaxes", lambda f, x: f(x, 0, -1), shapes=ARRAY),
    *rows("moveaxis", lambda f, x: f(x, 0, -1), lambda f, x: f(x, (0, 1), (-1, 0)), shapes=ARRAY),
    *rows("rollaxis", lambda f, x: f(x, 2), lambda f, x: f(x, 0, 2), shapes=ARRAY),
    *rows("expand_dims", lambda f, x: f(x, 0), lambda f, x: f(x, (-1, 0))),
    *rows("squeeze", lambda f, x: f(x[None]), lambda f, x: f(x[:, None], axis=1), shapes=ARRAY),
    *rows("atleast_1d atleast_2d atleast_3d"),
    *rows("atleast_1d atleast_2d atleast_3d", lambda f, x, y: tuple(f(x, y)), shapes=BINARY[:2]),
    *rows("broadcast_to", lambda f, x: f(x, (2, 3, 5)), shapes=[((3, 5),), ((),), ((1, 5),), ((3, 1),)]),
    *rows("broadcast_arrays", lambda f, x, y: tuple(f(x, y)), shapes=BINARY),
    *rows("resize", lambda f, x: f(x, (2, 4)), lambda f, x: f(x, (3, 9)), shapes=[((3, 5),), ((0,),)]),
    *rows("size shape ndim", lambda f, x: np.array(f(x)), shapes=[((3, 5),), ((),), ((2, 0),)]),
    # Joining and splitting.
    *rows(
        "concatenate concat",
        lambda f, x, y: f((x, y)),
        lambda f, x, y: f([x, y, x], axis=-1),
        shapes=[((2, 3), (2, 3)), ((0, 2), (0, 2))],
    ),
    *rows("concatenate", lambda f, x, y: f((x, y), axis=None), shapes=BINARY),
    *rows(
        "stack hstack vstack dstack column_stack",
        lambda f, x, y: f((x, y)),
        shapes=[((2, 3), (2, 3)), ((3,), (3,)), ((), ()), ((0,), (0,)), ((2, 3, 4), (2, 3, 4))],
    ),
    *rows("stack", lambda f, x, y: f((x, y), axis=-1), shapes=[((2, 3), (2, 3)), ((), ())]),
    *rows("append", lambda f, x, y: f(x, y), shapes=BINARY),
    *rows("append", lambda f, x, y: f(x, y, axis=0), shapes=[((2, 3), (4, 3))]),
    *rows("block", lambda f, x, y: f([[x, y], [y, x]]), lambda f, x, y: f([x, y]), shapes=[((2, 3), (2, 3)), ((), ())]),
    *rows(
        "split array_split",
        lambda f, x: tuple(f(x, 2)),
        lambda f, x: tuple(f(x, np.array([1, 3, 5]), axis=-1)),
        shapes=[((4, 5),), ((2, 0),)],
    ),
    *rows("array_split", lambda f, x: tuple(f(x, 3)), shapes=[((7, 2),), ((1, 1),)]),
    *rows(
        "hsplit vsplit dsplit",
        lambda f, x: tuple(f(x, 2)),
        lambda f, x: tuple(f(x, [1])),
        shapes=[((2, 4, 2),), ((2, 2, 0),)],
    ),
    *rows("hsplit", lambda f, x: tuple(f(x, 2)), shapes=[((4,),)]),
    *rows("unstack", lambda f, x: tuple(f(x)), lambda f, x: tuple(f(x, axis=-1)), shapes=[((3, 2),), ((2, 0),)]),
    *rows("tile", lambda f, x: f(x, 2), lambda f, x: f(x, (2, 1, 3)), lambda f, x: f(x, 0)),
    *rows("repeat", lambda f, x: f(x, 2), lambda f, x: f(x, 0)),
    *rows("repeat", lambda f, x: f(x, np.array([2, 0, 1]), axis=0), shapes=[((3, 5),), ((3, 0),)]),
    *rows(
        "delete",
        lambda f, x: f(x, 1),
        lambda f, x: f(x, np.s_[::2], axis=1),
        lambda f, x: f(x, np.array([0, -1]), axis=0),
        shapes=[((3, 5),)],
    ),
    *rows(
        "insert",
        lambda f, x: f(x, 1, 7),
        lambda f, x: f(x, np.array([1, 2]), x[:, :2], axis=1),
        lambda f, x: f(x, -1, x[0], axis=0),
        shapes=[((3, 5),)],
    ),
    *rows("pad", lambda f, x: f(x, 2), lambda f, x: f(x, ((1, 0), (2, 3)), mode="reflect"), shapes=[((3, 5),)]),
    *(
        row
        for mode in ("edge", "symmetric", "wrap", "maximum", "minimum", "mean", "median", "linear_ramp")
        for row in rows(
            "pad", lambda f, x, mode=mode: f(x, ((1, 0), (2, 3)), mode=mode), shapes=[((3, 5),)], domain="positive"
        )
    ),
    # Selection.
    *full("where", lambda np, x, y: np.where(x > y, x, y), lambda np, x, y: np.where(x, x, y), shapes=BINARY),
    *full("select", lambda np, x, y: np.select([x > y, x < y], [x, y], 1), shapes=BINARY[:1]),
    *full("piecewise", lambda np, x: np.piecewise(x, [x < 0, x >= 1], [lambda v: -v, lambda v: v * v, 2])),
    *rows("clip", lambda f, x: f(x, 0, 1), lambda f, x: f(x, None, 2), lambda f, x: f(x, 0), domain="any"),
    *rows(
        "choose", lambda f, x, y: f(np.array([0, 1, 0, 1, 7]), (x, y), mode="clip"), shapes=[((5,), (5,)), ((5,), ())]
    ),
    *rows("take", lambda f, x: f(x, np.array([[2, 0], [-1, 1]]), axis=0), lambda f, x: f(x, 3), shapes=[((3, 5),)]),
    *rows(
        "take",
        lambda f, x: f(x, np.array([7, -9]), axis=0, mode="wrap"),
        lambda f, x: f(x, 99, mode="clip"),
        shapes=[((3, 5),)],
    ),
    *rows(
        "take_along_axis",
        lambda f, x: f(x, np.array([[2, 0], [1, 1], [4, 0]]), axis=1),
        lambda f, x: f(x, np.array([3, 14]), axis=None),
        shapes=[((3, 5),)],
    ),
    *full(
        "put_along_axis",
        lambda np, x: put(np, "put_along_axis", x, np.array([[2], [0], [4]]), 1, 1),
        shapes=[((3, 5),)],
    ),
    *full("put", lambda np, x: put(np, "put", x, [3, -1], [1, 0]), shapes=[((3, 5),)]),
    *full("place", lambda np, x: put(np, "place", x, MASK, [1, 0]), shapes=[((3, 5),)]),
    *full(
        "fill_diagonal",
        lambda np, x: put(np, "fill_diagonal", x, 1),
        lambda np, x: put(np, "fill_diagonal", x, [1, 0]),
        shapes=[((3, 5),), ((5, 3),), ((2, 2),)],
    ),
    *full(
        "compress",
        lambda np, x: np.compress(MASK[:, 1], x, axis=0, size=1),
        shapes=[((3, 5),)],
        reference=lambda np, x: np.compress(MASK[:, 1], x, axis=0),
    ),
    *full(
        "extract",
        lambda np, x: np.extract(MASK, x, size=7, fill_value=2),
        shapes=[((3, 5),)],
        reference=lambda np, x: padded(np.extract(MASK, x), 7, 2),
    ),
    *rows("isin", shapes=[((3, 5), (5,)), ((3,), (0,)), ((0,), (3,))]),
    *rows("unravel_index", lambda f, x: tuple(f(x, (2, 2))), domain="index", shapes=[((3,),)], dtypes=INTEGERS),
    *rows(
        "ravel_multi_index",
        lambda f, x, y: f((x, y), (3, 3), mode="wrap"),
        domain="index",
        shapes=[((3,), (3,))],
        dtypes=("int32",),
    ),
    # Matrices.
    *rows("diag", lambda f, x: f(x), lambda f, x: f(x, 1), lambda f, x: f(x, -2), shapes=[((3, 5),), ((3,),), ((0,),)]),
    *rows("diagflat", lambda f, x: f(x), lambda f, x: f(x, -1), shapes=[((2, 2),), ((),), ((0,),)]),
    *rows("diagonal", lambda f, x: f(x), lambda f, x: f(x, 1), lambda f, x: f(x, -1, 1, 0), shapes=MATRIX),
    *rows("trace", lambda f, x: f(x), lambda f, x: f(x, 1), lambda f, x: f(x, -1, 1, 0), shapes=MATRIX),
    *rows("tril triu", lambda f, x: f(x), lambda f, x: f(x, 1), lambda f, x: f(x, -2), shapes=MATRIX),
    *rows(
        "vander",
        lambda f, x: f(x),
        lambda f, x: f(x, 3),
        lambda f, x: f(x, 4, increasing=True),
        shapes=[((3,),), ((0,),)],
    ),
    # Products. Their operands are finite: 0 * inf depends on the order of the terms.
    *rows(
        "dot",
        domain="any finite",
        shapes=[((3, 4), (4, 2)), ((4,), (4,)), ((), (3,)), ((2, 3, 4), (4,)), ((2, 0), (0, 3)), ((0,), (0,))],
    ),
    *rows(
        "matmul",
        domain="any finite",
        shapes=[((3, 4), (4, 2)), ((4,), (4,)), ((4,), (4, 2)), ((5, 1, 2, 3), (4, 3, 2)), ((2, 0), (0, 3))],
    ),
    *rows("inner", domain="any finite", shapes=[((3, 4), (2, 4)), ((), (2,)), ((2, 0), (3, 0))]),
    *rows("outer kron", domain="any finite", shapes=[((2, 3), (4,)), ((), ()), ((0,), (2,))]),
    *rows("vdot", domain="any finite", shapes=[((2, 3), (2, 3)), ((), ()), ((0,), (0,))]),
    *rows("vecdot", domain="any finite", shapes=[((2, 3), (3,)), ((2, 1, 3), (4, 3)), ((2, 0), (2, 0))]),
    *rows("matvec", domain="any finite", shapes=[((2, 3, 4), (4,)), ((2, 0), (0,))]),
    *rows("vecmat", domain="any finite", shapes=[((3,), (2, 3, 4)), ((0,), (0, 2))]),
    *rows(
        "tensordot",
        lambda f, x, y: f(x, y),
        lambda f, x, y: f(x, y, 1),
        lambda f, x, y: f(x, y, ((0, 1), (1, 0))),
        domain="any finite",
        shapes=[((3, 3), (3, 3)), ((0, 0), (0, 0))],
    ),
    *rows("cross", domain="any finite", shapes=[((2, 3), (3,)), ((3,), (2, 3)), ((0, 3), (3,))]),
    *rows(
        "einsum",
        *(
            lambda f, x, y, s=s: f(s, x, y)
            for s in ("ij,jk->ik", "ij,jk", "ij,ij->", "ii,jk->k", "...j,j...->...", "ij,kl->ikjl")
        ),
        domain="any finite",
        shapes=[((3, 3), (3, 3))],
    ),
    *rows(
        "einsum",
        *(lambda f, x, s=s: f(s, x) for s in ("ii->i", "ij->ji", "ij->", "ii", "ij->j")),
        domain="any finite",
        shapes=[((3, 3),), ((0, 0),)],
    ),
    # Signals, polynomials, histograms.
    *rows(
        "convolve correlate",
        *(lambda f, x, y, m=m: f(x, y, mode=m) for m in ("full", "same", "valid")),
        domain="any finite",
        shapes=[((7,), (3,)), ((2,), (5,))],
    ),
    *rows("interp", lambda f, x: f(x, np.array([0.0, 1, 2.5]), np.array([1.0, -1, 4])), domain="positive"),
    *full(
        "interp",
        lambda np, x: np.interp(np.array([0.7, 1.9, -1]), np.array([0.0, 1, 2.5]), x),
        shapes=[((3,),)],
        domain="positive",
    ),
    *rows("polyval polyadd polysub polymul", domain="above 1", shapes=[((3,), (4,)), ((1,), (3,))]),
    *rows("polyder polyint", lambda f, x: f(x), lambda f, x: f(x, 2), domain="any finite", shapes=[((4,),), ((1,),)]),
    *rows("polydiv", lambda f, x, y: f(x, y)[0], domain="positive", shapes=[((4,), (2,))]),
    *rows("poly", domain="positive", shapes=[((3,),)]),
    *full(
        "bincount",
        lambda np, x: np.bincount(x, length=5),
        domain="index",
        shapes=[((7,),)],
        reference=lambda np, x: np.bincount(x, minlength=5),
    ),
    *full(
        "bincount",
        lambda np, x: np.bincount(np.array([0, 2, 1]), weights=x, length=3),
        domain="positive",
        reference=lambda np, x: np.bincount(np.array([0, 2, 1]), weights=x),
        shapes=[((3,),)],
    ),
    *rows("digitize", lambda f, x: f(x, np.array([0.5, 1.0, 2.0], "float32"))),
    *rows("histogram", lambda f, x: f(x, 3)[0], domain="positive", shapes=[((3, 5),)]),
    *rows("histogram", lambda f, x: f(x, 3)[1], domain="positive", shapes=[((3, 5),)]),
    *rows("kaiser", lambda f, x: f(5, x), domain="positive", shapes=[((),)]),
    *rows("histogram_bin_edges", lambda f, x: f(x, 3), domain="positive", shapes=[((3, 5),)]),
    *rows("histogram2d", lambda f, x, y: f(x, y, 3)[0], domain="positive", shapes=[((7,), (7,))]),
    *rows("histogramdd", lambda f, x: f(x, 2)[0], domain="positive", shapes=[((7, 2),)]),
    # Sets and positions, of known sizes.
    *full(
        "unique",
        lambda np, x: np.unique(x, size=4, fill_value=3),
        domain="index",
        reference=lambda np, x: padded(np.unique(x), 4, 3),
        shapes=[((7,),), ((0,),)],
    ),
    *(
        row
        for name in ("union1d", "intersect1d", "setdiff1d", "setxor1d")
        for row in full(
            name,
            lambda np, x, y, name=name: getattr(np, name)(x, y, size=6, fill_value=0),
            domain="index",
            dtypes=DTYPES[1:],
            shapes=[((3,), (4,))],
            reference=lambda np, x, y, name=name: padded(getattr(np, name)(x, y), 6, 0),
        )
    ),
    *(
        row
        for name in ("unique_all", "unique_counts", "unique_inverse", "unique_values")
        for row in full(
            name,
            lambda np, x, name=name: getattr(np, name)(x, size=4, fill_value=3),
            domain="index",
            reference=lambda np, x, name=name: unique(name, x),
            shapes=[((7,),), ((2, 2),)],
        )
    ),
    *(
        row
        for name in ("nonzero", "argwhere", "flatnonzero")
        for row in full(
            name,
            lambda np, x, name=name: getattr(np, name)(x, size=20, fill_value=9),
            shapes=[((3, 5),), ((0,),), ((7,),)],
            reference=lambda np, x, name=name: all_padded(getattr(np, name)(x), 20, 9),
        )
    ),
    # Arrays made like others, or of their values.
    *rows("zeros_like ones_like"),
    *rows("full_like", lambda f, x: f(x, 2), lambda f, x: f(x, 2, shape=(2, 2))),
    *full("empty_like", lambda np, x: np.zeros_like(np.empty_like(x))),
    *full("zeros ones", lambda np, x: (np.zeros((2, 0), x.dtype), np.ones(3, x.dtype))),
    *full("empty", lambda np, x: np.zeros_like(np.empty((2, 3), x.dtype))),
    *full("full", lambda np, x: np.full((2, 3), x), shapes=[((),), ((3,),), ((2, 1),)]),
    *full("eye", lambda np, x: (np.eye(3, 4, 1, dtype=x.dtype), np.eye(2, dtype=x.dtype))),
    *full("identity", lambda np, x: np.identity(3, x.dtype)),
    *full("tri", lambda np, x: (np.tri(3, 4, -1, x.dtype), np.tri(2, dtype=x.dtype))),
    *full("arange", lambda np, x: np.arange(1, 8, 3, dtype=x.dtype), domain="positive"),
    *full(
        "linspace",
        lambda np, x: np.linspace(x, 2 * x + 1, 4),
        lambda np, x: np.linspace(0, x, 3, endpoint=False),
        lambda np, x: np.linspace(x, 9, 5, retstep=True, axis=-1),
        shapes=[((3,),), ((),)],
        domain="positive",
    ),
    *full("logspace", lambda np, x: np.logspace(x, 2.0, 4, base=2.0), shapes=[((3,),), ((),)], domain="positive"),
    *full("geomspace", lambda np, x: np.geomspace(x, 20.0, 4), shapes=[((3,),), ((),)], domain="positive"),
    *rows(
        "meshgrid",
        lambda f, x, y: tuple(f(x, y)),
        lambda f, x, y: tuple(f(x, y, indexing="ij", sparse=True)),
        shapes=[((3,), (4,)), ((), (2,)), ((0,), (2,))],
    ),
    *rows("array asarray copy", shapes=UNARY),
    *full("array asarray", lambda np, x: np.array([x, x + x]), shapes=UNARY),
    *rows("astype", *(lambda f, x, d=d: f(x, d) for d in ("float32", "int32", "bool")), domain="positive"),
    *rows("astype", lambda f, x: f(x, x.dtype)),
    *full("ix_", lambda np, x: np.ix_(x, x[:2]), domain="index", shapes=[((3,),)]),
    # Functions of functions.
    *rows(
        "apply_along_axis",
        lambda f, x: f(lambda v: v[::-1], 0, x),
        lambda f, x: f(lambda v: v.sum(), 1, x),
        shapes=[((3, 5),)],
    ),
    *full("apply_over_axes", lambda np, x: np.apply_over_axes(np.sum, x, [0, -1]), shapes=ARRAY),
    *full(
        "vectorize",
        lambda np, x, y: np.vectorize(lambda u, v: u * v, signature="(n),(n)->(n)")(x, y),
        shapes=[((3, 5), (5,))],
    ),
    *full(
        "frompyfunc",
        lambda np, x, y: np.frompyfunc(lambda u, v: u + v, 2, 1)(x, y),
        reference=lambda np, x, y: x + y,
        shapes=[((3, 5), (5,)), ((), ())],
    ),
    # Linear algebra.
    *rows(
        "linalg.det linalg.slogdet linalg.inv linalg.pinv linalg.cond linalg.matrix_rank",
        lambda f, x: f(regular(x)),
        shapes=SQUARE[:3],
        domain="unit",
        dtypes=DTYPES[1:],
    ),
    *rows(
        "linalg.matrix_power",
        lambda f, x: f(x, 3),
        lambda f, x: f(regular(x), -2),
        shapes=SQUARE[:3],
        domain="unit",
        dtypes=DTYPES[1:],
    ),
    *rows(
        "linalg.cholesky linalg.eigvalsh",
        lambda f, x: f(hermitian(x)),
        shapes=SQUARE,
        domain="unit",
        dtypes=DTYPES[1:],
    ),
    *full(
        "linalg.eigh",
        lambda np, x: (np.linalg.eigh(hermitian(x))[0], abs(np.linalg.eigh(hermitian(x))[1])),
        shapes=SQUARE[:3],
        domain="unit",
        dtypes=DTYPES[1:],
    ),
    *full(
        "linalg.eigvals",
        lambda np, x: np.sort(np.linalg.eigvals(regular(x))),
        shapes=SQUARE[:3],
        domain="unit",
        dtypes=DTYPES[1:],
    ),
    *full(
        "linalg.eig",
        lambda np, x: np.sort(np.linalg.eig(regular(x))[0]),
        shapes=SQUARE[:3],
        domain="unit",
        dtypes=DTYPES[1:],
    ),
    *rows("linalg.svdvals", domain="any finite", shapes=TALL),
    *rows(
        "linalg.svd",
        lambda f, x: f(x, compute_uv=False),
        lambda f, x: f(x.swapaxes(-1, -2), compute_uv=False),
        lambda f, x: tuple(abs(y) for y in f(x, full_matrices=False)),
        domain="any finite",
        shapes=TALL,
        dtypes=DTYPES[1:],
    ),
    *rows("linalg.qr", lambda f, x: tuple(abs(y) for y in f(x)), domain="any finite", shapes=TALL, dtypes=DTYPES[4:]),
    *rows("linalg.lstsq", lambda f, x, y: f(x, y)[0], domain="any finite", shapes=[((5, 3), (5,)), ((3, 3), (3, 2))]),
    *rows(
        "linalg.solve",
        lambda f, x, y: f(regular(x), y),
        shapes=[((4, 4), (4, 2)), ((3, 3), (3,)), ((2, 3, 3), (3, 1))],
        domain="unit",
        dtypes=DTYPES[1:],
    ),
    *rows(
        "linalg.tensorsolve",
        lambda f, x, y: f(regular(x).reshape(2, 2, 4), y),
        shapes=[((4, 4), (2, 2))],
        domain="unit",
        dtypes=DTYPES[1:],
    ),
    *rows(
        "linalg.tensorinv",
        lambda f, x: f(regular(x).reshape(2, 2, 4)),
        shapes=SQUARE[:1],
        domain="unit",
        dtypes=DTYPES[1:],
    ),
    *rows(
        "linalg.norm",
        *(lambda f, x, o=o: f(x, o) for o in (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)),
        *(lambda f, x, o=o: f(x, o, axis=1, keepdims=True) for o in (0, 1, 2, 3, np.inf, -np.inf)),
        domain="any finite",
        shapes=[((3, 5),), ((1, 1),)],
    ),
    *rows("linalg.vector_norm", domain="any finite", shapes=[((3, 5),), ((1, 1),)]),
    *rows(
        "linalg.vector_norm",
        lambda f, x: f(x, axis=(0, 1), ord=1),
        lambda f, x: f(x, axis=0, ord=2.5),
        domain="any finite",
        shapes=[((3, 5),), ((1, 1),)],
        dtypes=DTYPES[4:],  # of integers JAX makes integers, NumPy does not
    ),
    *rows("linalg.matrix_norm", lambda f, x: f(x), lambda f, x: f(x, ord="nuc"), domain="any finite", shapes=TALL),
    *rows("linalg.multi_dot", lambda f, x, y: f([x, y, x]), domain="unit", shapes=[((3, 4), (4, 3))]),
    *rows("linalg.outer", domain="any finite", shapes=[((3,), (4,)), ((0,), (2,))]),
    *rows("linalg.cross", domain="any finite", shapes=[((2, 3), (2, 3)), ((0, 3), (0, 3))]),
    *rows("linalg.matmul", domain="any finite", shapes=[((3, 4), (4, 2)), ((5, 1, 2, 3), (4, 3, 2)), ((2, 0), (0, 3))]),
    *rows("linalg.vecdot", domain="any finite", shapes=[((2, 3), (3,)), ((2, 0), (2, 0))]),
    *rows("linalg.tensordot", lambda f, x, y: f(x, y, axes=1), domain="any finite", shapes=[((3, 3), (3, 2))]),
    *rows("linalg.diagonal linalg.trace", lambda f, x: f(x), lambda f, x: f(x, offset=1), shapes=MATRIX),
    *rows("linalg.matrix_transpose", shapes=MATRIX),
    # Fourier transforms.
    *rows(
        "fft.fft fft.ifft fft.rfft fft.irfft fft.hfft fft.ihfft",
        lambda f, x: f(x),
        lambda f, x: f(x, 4, axis=0, norm="ortho"),
        domain="any finite",
        shapes=[((3, 5),), ((7,),), ((2, 0, 3),)],
    ),
    *rows(
        "fft.fft2 fft.ifft2 fft.rfft2 fft.irfft2 fft.fftn fft.ifftn fft.rfftn fft.irfftn",
        lambda f, x: f(x),
        lambda f, x: f(x, s=(2, 4), axes=(1, 0), norm="forward"),
        domain="any finite",
        shapes=[((3, 5),)],
    ),
    *rows("fft.fftshift fft.ifftshift", lambda f, x: f(x), lambda f, x: f(x, axes=0), shapes=REDUCED),
    *rows("fft.fftfreq fft.rfftfreq", lambda f, x: f(6, 0.5) * x, shapes=[((),)]),
    # Bits.
    *rows("packbits", lambda f, x: f(x), lambda f, x: f(x, axis=-1, bitorder="little"), shapes=[((3, 5),), ((0,),)]),
    *rows("unpackbits", lambda f, x: f(x), lambda f, x: f(x, axis=0, count=9), shapes=[((3, 5),)]),
    # Comparison of whole arrays.
    *rows("allclose array_equal array_equiv", lambda f, x, y: f(x, y), lambda f, x, y: f(x, x), shapes=BINARY[:3]),
    *rows("iscomplexobj isrealobj isscalar iterable", lambda f, x: np.array(f(x)), shapes=[((3, 5),)]),
]
