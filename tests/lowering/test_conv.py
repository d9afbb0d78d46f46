"""Convolutions in all layouts, against loops."""

from __future__ import annotations

import functools
import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from support.compiled import results
from support.interpreted import interpreted
from support.jaxpr_graphs import Graph

import veery
from veery import lax

RNG = np.random.default_rng(0)
LAYOUTS = {
    "NCHW": ((0, 1, 2, 3), (0, 1, 2, 3), (0, 1, 2, 3)),
    "NHWC": ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2)),
    "mixed": ((3, 0, 2, 1), (1, 3, 0, 2), (2, 1, 3, 0)),
}


def reference(x: np.ndarray, kernel: np.ndarray, strides, padding, lhs_dilation, rhs_dilation, groups) -> np.ndarray:
    """x: NCHW, kernel: OIHW."""
    n, c, h, w = x.shape
    o, i, kh, kw = kernel.shape
    a, b = lhs_dilation
    spread = np.zeros((n, c, (h - 1) * a + 1, (w - 1) * b + 1))
    spread[:, :, ::a, ::b] = x
    wide = np.pad(spread, ((0, 0), (0, 0), *[(max(0, low), max(0, high)) for low, high in padding]))
    (low_h, high_h), (low_w, high_w) = [(max(0, -low), max(0, -high)) for low, high in padding]
    wide = wide[:, :, low_h : wide.shape[2] - high_h, low_w : wide.shape[3] - high_w]
    rows = (wide.shape[2] - (kh - 1) * rhs_dilation[0] - 1) // strides[0] + 1
    columns = (wide.shape[3] - (kw - 1) * rhs_dilation[1] - 1) // strides[1] + 1
    out = np.zeros((n, o, rows, columns))
    for f, (y, z), (p, q) in itertools.product(range(o), np.ndindex(rows, columns), np.ndindex(kh, kw)):
        group = f // (o // groups)
        part = wide[
            :, group * i : (group + 1) * i, y * strides[0] + p * rhs_dilation[0], z * strides[1] + q * rhs_dilation[1]
        ]
        out[:, f, y, z] += part @ kernel[f, :, p, q]
    return out


def laid_out(x: np.ndarray, spec: tuple) -> np.ndarray:
    """From logical order (batch, feature, space...) to where `spec` says each of them is."""
    return np.ascontiguousarray(np.transpose(x, np.argsort(spec)))


CASES = [
    ((1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1), 1),
    ((2, 1), ((1, 1), (2, 0)), (1, 1), (1, 2), 1),
    ((1, 1), ((1, 2), (0, 1)), (2, 1), (1, 1), 1),
    ((1, 2), ((-1, 0), (1, 1)), (1, 1), (1, 1), 2),
    ((1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1), 4),
    ((8, 1), ((1, 1), (0, 0)), (1, 1), (1, 1), 1),  # one window along an axis, and elements behind it
]


@pytest.mark.parametrize("layout", list(LAYOUTS))
def test_layouts(layout: str) -> None:
    g = Graph()
    lhs_spec, rhs_spec, out_spec = LAYOUTS[layout]
    numbers = SimpleNamespace(lhs_spec=lhs_spec, rhs_spec=rhs_spec, out_spec=out_spec)
    x = RNG.standard_normal((2, 4, 7, 6)).astype(np.float32)
    for strides, padding, lhs_dilation, rhs_dilation, groups in CASES:
        kernel = RNG.standard_normal((8, 4 // groups, 3, 2)).astype(np.float32)
        expected = reference(x, kernel, strides, padding, lhs_dilation, rhs_dilation, groups).astype(np.float32)
        out = g.op(
            "conv_general_dilated", g.input(laid_out(x, lhs_spec)), g.input(laid_out(kernel, rhs_spec)),
            out=laid_out(expected, out_spec).shape, window_strides=strides, padding=padding, lhs_dilation=lhs_dilation,
            rhs_dilation=rhs_dilation, dimension_numbers=numbers, feature_group_count=groups, batch_group_count=1,
            precision=None, preferred_element_type=None,
        )  # fmt: skip
        g.check(f"{strides} {groups}", out, laid_out(expected, out_spec), 1e-4)
    g.run()


def test_channels_first_is_transposed_behind_barriers() -> None:
    """IREE would fold plain transposes into the convolution, which is then 300 times slower."""
    g = Graph(((2, 4, 7, 6), np.float32), ((8, 4, 3, 2), np.float32))
    numbers = SimpleNamespace(lhs_spec=(0, 1, 2, 3), rhs_spec=(0, 1, 2, 3), out_spec=(0, 1, 2, 3))
    g.outvars.append(
        g.op(
            "conv_general_dilated", *g.invars, out=(2, 8, 5, 5), window_strides=(1, 1), padding=((0, 0), (0, 0)),
            lhs_dilation=(1, 1), rhs_dilation=(1, 1), dimension_numbers=numbers,
        )
    )  # fmt: skip
    text = g.text()
    assert text.count("optimization_barrier") == 3 and "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]" in text


def test_groups_are_split_for_vulkan() -> None:
    """Grouped convolutions come back as zeros there."""
    g = Graph(((2, 7, 6, 4), np.float32), ((3, 2, 2, 8), np.float32))
    numbers = SimpleNamespace(lhs_spec=(0, 3, 1, 2), rhs_spec=(3, 2, 0, 1), out_spec=(0, 3, 1, 2))
    g.outvars.append(
        g.op(
            "conv_general_dilated", *g.invars, out=(2, 5, 5, 8), window_strides=(1, 1), padding=((0, 0), (0, 0)),
            lhs_dilation=(1, 1), rhs_dilation=(1, 1), dimension_numbers=numbers, feature_group_count=2,
        )
    )  # fmt: skip
    text = g.text(target="vulkan")
    assert text.count("stablehlo.convolution") == 2 and "feature_group_count = 2" not in text


# Width, padding, stride, dilation of the lines and of the windows.
LINES = [(3, (1, 1), 1, 1, 1), (5, (-1, 3), 2, 1, 2), (2, (0, 4), 3, 2, 1), (40, (9, -2), 1, 1, 1)]


def test_lines_are_products() -> None:
    """Convolutions along one axis and their gradients, in which windows are as long as the lines."""
    x = RNG.standard_normal((2, 3, 41)).astype(np.float32)
    calls = []
    for width, padding, stride, spread, apart in LINES:
        given = {"window_strides": (stride,), "padding": [padding], "lhs_dilation": (spread,), "rhs_dilation": (apart,)}
        fun = functools.partial(lax.conv_general_dilated, **given, dimension_numbers=("NCH", "OIH", "NCH"))
        w = RNG.standard_normal((4, 3, width)).astype(np.float32)
        calls.append((fun, (x, w)))
        calls.append((veery.grad(lambda x, w, f=fun: (f(x, w) ** 2).sum(), argnums=(0, 1)), (x, w)))
        assert "stablehlo.convolution" not in veery.jit(fun).lower(x, w).as_text()
    for (fun, operands), outs in zip(calls, results(calls), strict=True):
        expected = veery.tree.leaves(interpreted(fun, *operands))
        for actual, wanted in zip(veery.tree.leaves(outs), expected, strict=True):
            np.testing.assert_allclose(actual, wanted, rtol=1e-4, atol=1e-3)


def test_long_lines_with_wide_windows_are_convolutions() -> None:
    text = (
        veery.jit(lambda x, w: lax.conv(x, w, (1,), "VALID")).lower(*map(np.zeros, [(1, 1, 99), (1, 1, 40)])).as_text()
    )
    assert "stablehlo.convolution" in text
