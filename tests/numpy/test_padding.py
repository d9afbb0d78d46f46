"""pad, in all its modes, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from support.numpy_trace import numpy_evaluation

import veery
import veery.numpy as jnp

FLOATS = np.random.default_rng(0).standard_normal((3, 4))
INTEGERS = np.arange(12).reshape(3, 4)
WIDTHS = (1, (2, 1), ((1, 2), (3, 0)), ((5, 4), (9, 7)))
MODES = "constant edge linear_ramp maximum mean median minimum reflect symmetric wrap".split()
OPTIONS = [
    ("constant", {"constant_values": ((1, 2), (3, 4))}),
    ("constant", {"constant_values": (7, 8)}),
    ("linear_ramp", {"end_values": ((1, 2), (3, 4))}),
    ("mean", {"stat_length": 2}),
    ("reflect", {"reflect_type": "odd"}),
    ("symmetric", {"reflect_type": "odd"}),
]


def compare(x, width, mode, **options):
    with veery.enable_x64(True), numpy_evaluation():
        actual = np.asarray(jnp.pad(x, width, mode, **options))
    expected = np.pad(x, width, mode, **options)
    assert actual.dtype == expected.dtype
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("mode", MODES)
def test_modes(mode, width):
    compare(FLOATS, width, mode)
    compare(INTEGERS, width, mode)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("mode, options", OPTIONS)
def test_options(mode, options, width):
    compare(FLOATS, width, mode, **options)


@pytest.mark.parametrize("mode", ["edge", "reflect", "symmetric", "wrap"])
def test_few_borders_are_slices_and_many_lookups(mode):
    borders = lambda width: str(veery.make_jaxpr(lambda x: jnp.pad(x, ((0, 0), (width, width)), mode))(FLOATS))
    assert "gather" not in borders(3)
    assert ("gather" in borders(40)) is (mode != "edge")
    compare(FLOATS, ((0, 3), (40, 41)), mode)
    compare(FLOATS[:1, :1], ((0, 3), (40, 0)), mode)


@pytest.mark.compiler
def test_compiled_and_differentiated():
    x = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(veery.jit(lambda x: jnp.pad(x, (1, 2), "edge"))(x), np.pad(x, (1, 2), "edge"))
    gradient = veery.grad(lambda x: jnp.pad(x, (1, 2), "edge").sum())(x)
    np.testing.assert_array_equal(gradient, [2, 1, 3])
    gradient = veery.grad(lambda x: (jnp.pad(x, (1, 2), "reflect") * jnp.arange(6.0)).sum())(x)
    np.testing.assert_array_equal(gradient, [1 + 5, 0 + 2 + 4, 3])


def test_bad_input():
    with pytest.raises(NotImplementedError, match="Unimplemented padding mode"):
        jnp.pad(FLOATS, 1, "mirror")
    with pytest.raises(ValueError, match="negative"):
        jnp.pad(FLOATS, -1)
    with pytest.raises(ValueError, match="unsupported keyword"):
        jnp.pad(FLOATS, 1, "edge", constant_values=3)
    with pytest.raises(TypeError, match="integral"):
        jnp.pad(FLOATS, 1.5)
    with pytest.raises(ValueError, match="empty axis"):
        jnp.pad(np.zeros((0,)), 1, "edge")


@pytest.mark.parametrize("mode", [*MODES, "empty"])
def test_python_numbers_stay_weakly_typed(mode):
    for width in (0, 1):
        assert jnp.pad(jnp.array(1.0)[None], width, mode).weak_type
    assert not jnp.pad(jnp.ones(1), 1, mode).weak_type


def test_functions_are_applied_along_each_axis():
    def bordered(vector, width, axis, options):
        return vector.at[: width[0]].set(options["value"] + axis).at[vector.size - width[1] :].set(-1)

    def in_place(vector, width, axis, options):
        vector[: width[0]] = options["value"] + axis
        vector[vector.size - width[1] :] = -1

    x = np.arange(24).reshape(2, 3, 4)
    width = ((1, 2), (2, 1), (0, 3))
    np.testing.assert_array_equal(jnp.pad(x, width, bordered, value=7), np.pad(x, width, in_place, value=7))
