"""Convolutions with what follows them, as kernels: that they compute what NumPy does, in any layout, and which."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.compiled import assert_as_numpy
from support.panels import take_small_parts

import veery
from veery import lax, numpy as jnp
from veery_lowering.kernels import fuse_products
from veery_lowering.passes.simplification import inlined
from veery_lowering.targets.target import Target

pytestmark = pytest.mark.usefixtures("as_preferred")

LAYOUTS = [
    ("NCHW", "OIHW", "NCHW"),
    ("NHWC", "HWIO", "NHWC"),
    ("NHWC", "OHWI", "NCHW"),
    ("HWNC", "IOHW", "CHWN"),
    ("CWHN", "WOIH", "NWCH"),
    ("NCH", "OIH", "NCH"),
    ("HNC", "HIO", "NHC"),
    ("NCDHW", "OIDHW", "NCDHW"),
    ("NDHWC", "DHWIO", "NCDHW"),
]
REGISTERS = 16, 32, 64


def array(shape: tuple[int, ...], dtype: Any = np.float32, seed: int = 7) -> np.ndarray:
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


@st.composite
def convolutions(draw: st.DrawFn) -> tuple[Callable[..., Any], tuple[np.ndarray, ...]]:
    """A convolution of any layout, window and size, with what follows, and what it is given."""
    layout = draw(st.sampled_from(LAYOUTS))
    space = [axis for axis in layout[2] if axis not in "NC"]
    number: Callable[..., int] = lambda *of: draw(st.sampled_from(of))
    sizes = {axis: number(4, 7, 9, 12, 17) for axis in space} | {"N": number(1, 2, 3), "C": number(1, 2, 3, 5)}
    filters = {axis: number(1, 2, 3) for axis in space} | {"O": number(1, 4, 7, 17, 33), "I": sizes["C"]}
    strides, spread, apart = ([number(1, 1, 2, 3) for _ in space] for _ in range(3))
    padding = [(number(0, 1, 2, -1), number(0, 1, 2, -1)) for _ in space]
    for i, axis in enumerate(space):
        wide = (filters[axis] - 1) * apart[i] + 1
        if (sizes[axis] - 1) * spread[i] + 1 + sum(padding[i]) < wide:
            padding[i] = (wide, 0)
    dtype = draw(st.sampled_from([np.float32, np.float32, np.float64, np.int32]))
    bias = array(tuple(filters["O"] if axis == "C" else 1 for axis in layout[2]), dtype, 5)

    def run(x: Any, w: Any, bias: Any) -> Any:
        made = lax.conv_general_dilated(x, w, strides, padding, spread, apart, dimension_numbers=layout)
        return jnp.maximum(made + bias, 0), made

    x, w = (array(tuple(of[axis] for axis in text), dtype, 3) for text, of in zip(layout, (sizes, filters)))
    return run, (x, w, bias)


@pytest.mark.parametrize("register", REGISTERS)
@pytest.mark.parametrize("parts", ["whole", "in many parts"])
@settings(max_examples=2)
@given(cases=st.lists(convolutions(), min_size=10, max_size=10))
def test_any_convolution(register: int, parts: str, cases: list[Any]) -> None:
    with pytest.MonkeyPatch.context() as patch, veery.enable_x64(True):
        patch.setattr(Target, "register", property(lambda _: register))
        if parts != "whole":
            take_small_parts(patch)
        assert_as_numpy(cases)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: " ".join(layout))
def test_gradients(layout: tuple[str, str, str]) -> None:
    """By the image a convolution with what is between its elements, by the filters one of large windows."""
    space = [axis for axis in layout[2] if axis not in "NC"]
    of = dict(zip(space, (14, 12, 6))) | {"N": 2, "C": 4}
    x = array(tuple(of[axis] for axis in layout[0]))
    w = array(tuple({"O": 8, "I": 4}.get(axis, 3) for axis in layout[1]), seed=9)

    def loss(x: Any, w: Any) -> Any:
        made = lax.conv_general_dilated(x, w, [2] + [1] * (len(space) - 1), "SAME", dimension_numbers=layout)
        return jnp.sum(jnp.maximum(made, 0) * 2)

    assert_as_numpy([(veery.grad(loss, (0, 1)), (x, w))])


def test_transposed_ones() -> None:
    x, w = array((2, 9, 10, 6)), array((3, 3, 6, 8), seed=9)
    made = lambda x, w, flipped: lax.conv_transpose(x, w, (2, 3), "SAME", transpose_kernel=flipped)
    turned = array((3, 3, 8, 6), seed=9)
    assert_as_numpy([(lambda x, w: made(x, w, False), (x, w)), (lambda x, w: made(x, w, True), (x, turned))])


@pytest.mark.parametrize("layout", LAYOUTS[:5], ids=lambda layout: " ".join(layout))
def test_windows_side_by_side(layout: tuple[str, str, str]) -> None:
    """All lines of all images are equally far apart, but not those of the result, which has features between them."""
    x = array(tuple({"N": 3, "C": 4}.get(axis, 24) for axis in layout[0]))
    w = array(tuple({"O": 16, "I": 4}.get(axis, 4) for axis in layout[1]), seed=9)
    assert_as_numpy(
        [
            (lambda x, w, p=p: lax.conv_general_dilated(x, w, (4, 4), p, dimension_numbers=layout), (x, w))
            for p in ([(0, 0), (0, 0)], [(0, 0), (2, 2)], [(4, 0), (0, 0)])
        ]
    )


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_nan_and_infinities() -> None:
    x, w = array((2, 3, 20, 21)), array((8, 3, 3, 3), seed=9)
    x[0, 1, 3, 4], x[1, 2, 19, 20], w[3, 1, 1, 1] = np.nan, np.inf, -np.inf
    assert_as_numpy([(lambda x, w: lax.conv(x, w, (1, 1), "SAME"), (x, w))])


def texts_of(fun: Callable[..., Any], *args: Any) -> tuple[int, str, str]:
    """How many kernels a function has of products, and its module before and after."""
    texts: list[str] = []
    counts: list[int] = []

    def fuse(module: Any) -> None:
        texts.append(str(module))
        counts.append(fuse_products(module))
        texts.append(str(module))

    inlined(veery.jit(fun).lower(*args)._lowered.module, fuse)
    return counts[0], texts[0], texts[1]


def test_it_is_convolved_in_the_layout_that_is_given() -> None:
    x, w, bias = array((2, 3, 20, 20)), array((8, 3, 3, 3)), array((8, 1, 1))
    count, before, after = texts_of(lambda x, w, b: veery.nn.relu(lax.conv(x, w, (1, 1), "SAME") + b), x, w, bias)
    assert count == 1
    assert "stablehlo.transpose" in before and "stablehlo.optimization_barrier" in before
    for name in ("transpose", "optimization_barrier", "convolution", "maximum"):
        assert f"stablehlo.{name}" not in after


@pytest.mark.parametrize(
    ("shapes", "options"),
    [
        (((2, 20, 20, 6), (3, 3, 1, 6)), {"feature_group_count": 6}),
        (((2, 20, 20, 6), (3, 3, 3, 8)), {"feature_group_count": 2}),
        (((2, 20, 20, 6), (3, 3, 6, 8)), {"batch_group_count": 2}),
        (((2, 20, 20, 6), (3, 3, 6, 1)), {}),
        (((1, 3, 3, 6), (3, 3, 6, 5)), {}),
        (((2, 0, 20, 6), (1, 1, 6, 5)), {}),
    ],
)
def test_others_stay_as_they_are(shapes: tuple[tuple[int, ...], ...], options: dict[str, int]) -> None:
    """With what is around the image, and the layout, that IREE compiles best."""
    given = {"padding": "VALID" if shapes[0][1] < 20 else "SAME", "dimension_numbers": ("NHWC", "HWIO", "NCHW")}
    fun = lambda x, w: lax.conv_general_dilated(x, w, (1, 1), **given, **options)
    count, before, after = texts_of(fun, *map(array, shapes))
    assert (count, after) == (0, before)
