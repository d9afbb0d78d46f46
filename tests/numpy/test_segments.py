"""Reductions over segments against a loop over them, and their gradients."""

from __future__ import annotations

import numpy as np
import pytest
from support import numerics
from support.numpy_trace import numpy_evaluation

import veery
import veery.numpy as jnp
from veery import ops

REFERENCES = {"segment_sum": np.sum, "segment_prod": np.prod, "segment_max": np.max, "segment_min": np.min}
EMPTY = {
    "segment_sum": (0, 0),
    "segment_prod": (1, 1),
    "segment_max": (-np.inf, -(2**31)),
    "segment_min": (np.inf, 2**31 - 1),
}
IDS = {
    "plain": np.array([2, 0, 0, 5, 2, 1]),
    "outside": np.array([2, -1, 0, 9, 2, 7]),
    "empty": np.zeros(0, int),
    "of two axes": np.array([[0, 1, 1], [4, 0, 0]]),
}


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_segments(name, ids, dtype):
    data = (np.arange(ids.size * 2).reshape(*ids.shape, 2) % 5 - 1).astype(dtype)
    neutral = EMPTY[name][dtype == "int32"]
    with numpy_evaluation():
        for count in (None, 7):
            segments = range(ids.max(initial=-1) + 1 if count is None else count)
            rows = [REFERENCES[name](data[ids == i], axis=0) if (ids == i).any() else [neutral] * 2 for i in segments]
            expected = np.array(rows, dtype).reshape(len(segments), 2)
            for bucket_size in (None, 1, 4):
                actual = getattr(ops, name)(data, ids, count, bucket_size=bucket_size)
                assert actual.dtype == dtype
                np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("name", sorted(REFERENCES.keys() - {"segment_prod"}))
def test_gradients(name):
    data, ids = np.array([1.0, 3.0, -2.0, 4.0, 0.5]), np.array([0, 1, 0, 4, 1])
    function = lambda x: jnp.where(jnp.array([1, 1, 0, 0, 1]), getattr(ops, name)(x, ids, 5), 0).sum()
    with veery.enable_x64(True), numpy_evaluation():
        np.testing.assert_allclose(veery.grad(function)(data), numerics.gradient(function, data), rtol=1e-6)


@pytest.mark.parametrize("operation", ["min", "max"])
def test_extremes_that_are_nan_have_no_gradient(operation):
    """But a NaN that no update reached is the identity of its place."""
    nan = np.nan
    x, places = np.array([nan, nan, 4.0, 4.0, nan, 4.0]), np.array([1, 2, 3, 3, 4, 9])
    updates = np.array([3.0, nan, nan, 1.0, nan, 2.0])
    write = lambda x, updates: getattr(jnp.asarray(x).at[places], operation)(updates)
    with numpy_evaluation():
        out, pullback = veery.vjp(write, x, updates)
        np.testing.assert_array_equal(out, [nan, nan, nan, nan, nan, 4])
        of_x, of_updates = pullback(jnp.arange(1.0, 7.0))
        np.testing.assert_array_equal(of_x, [1, 0, 0, 0, 0, 6])
        np.testing.assert_array_equal(of_updates, np.zeros(6))
        tangent = veery.jvp(write, (x, updates), (np.ones(6), np.full(6, 10.0)))[1]
        np.testing.assert_array_equal(tangent, [1, 0, 0, 0, 0, 1])
    data = jnp.array([1.0, nan, 3.0, 2.0])
    total = lambda data: getattr(ops, f"segment_{operation}")(data, jnp.array([0, 0, 1, 1]), 2)[1]
    assert veery.grad(total)(data).tolist() == ([0, 0, 1, 0] if operation == "max" else [0, 0, 0, 1])


@pytest.mark.compiler
def test_traced_ids_need_a_number():
    data, ids = np.ones(3, np.float32), np.array([0, 2, 2])
    assert veery.jit(ops.segment_sum, static_argnums=2)(data, ids, 4).tolist() == [1, 0, 2, 0]
    assert veery.vmap(lambda x: ops.segment_sum(x, ids))(data[None] * 2).tolist() == [[2, 0, 4]]
    with pytest.raises(veery.errors.ConcretizationTypeError, match=r"segment_sum\(\) `num_segments` argument"):
        veery.jit(ops.segment_sum)(data, ids)
    with pytest.raises(ValueError, match="num_segments must be non-negative"):
        ops.segment_max(data, ids, -1)


def test_devices_are_devices():
    assert all(isinstance(device, veery.Device) for device in veery.devices()) and not isinstance("cpu", veery.Device)
    assert veery.dlpack.is_supported_dtype("uint16") and not veery.dlpack.is_supported_dtype(veery.float0)
