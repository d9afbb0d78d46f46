"""Arrays as text, in files, and in other libraries' memory."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import veery.numpy as jnp

X = np.array([[1.5, -0.0], [np.nan, 1e-9]], np.float32)


def test_text():
    x = jnp.asarray(X)
    assert repr(x) == "Array([[ 1.5e+00, -0.0e+00],\n       [     nan,  1.0e-09]], dtype=float32)"
    assert jnp.array_repr(x, suppress_small=True) == "Array([[ 1.5, -0. ],\n       [ nan,  0. ]], dtype=float32)"
    assert jnp.array_str(x, precision=1, suppress_small=True) == np.array_str(X, precision=1, suppress_small=True)
    with jnp.printoptions(precision=1, suppress=True):
        assert str(x) == str(X)
        assert jnp.get_printoptions()["precision"] == 1
    assert jnp.array_repr([1]) == "[1]" and jnp.array_str(2) == "2"


def test_files(tmp_path):
    for x in (X, np.zeros((0, 2), np.int8), np.array(True), X.astype(np.complex64)):
        jnp.save(tmp_path / "x.npy", jnp.asarray(x))
        y = jnp.load(tmp_path / "x.npy")
        assert isinstance(y, jnp.ndarray) and y.dtype == x.dtype
        np.testing.assert_array_equal(y, x)
    jnp.save(tmp_path / "x.npy", jnp.ones(2, "bfloat16"))
    assert jnp.load(tmp_path / "x.npy").view(ml_dtypes.bfloat16).tolist() == [1, 1]
    jnp.savez(tmp_path / "x.npz", a=jnp.asarray(X), b=jnp.arange(2))
    with jnp.load(tmp_path / "x.npz") as archive:
        assert sorted(archive) == ["a", "b"]
        np.testing.assert_array_equal(archive["a"], X)


def test_buffers():
    data = np.arange(5, dtype=np.int16)
    assert jnp.frombuffer(data.tobytes(), "int16", count=3, offset=2).tolist() == [1, 2, 3]
    assert jnp.fromstring("1 2 3", "int32", sep=" ").tolist() == [1, 2, 3]
    for unsupported in (jnp.fromfile, jnp.fromiter):
        with pytest.raises(NotImplementedError, match="may be non-pure"):
            unsupported(data)


def test_memory_of_others_is_shared_where_it_may_be():
    memory = np.zeros(1024, np.uint8)
    start = -memory.ctypes.data % 64
    aligned, odd = (memory[start + shift :][:10].view(np.int16) for shift in (0, 130))
    for data, shared in ((aligned, True), (odd, False), (aligned[:, None].repeat(2, 1)[:, 0], False)):
        for copy in (None, True, False):
            if copy is False and not shared:
                with pytest.raises(ValueError, match="must be shared, but it is not contiguous"):
                    jnp.from_dlpack(data, copy=copy)
                continue
            data[:] = np.arange(5)
            taken = jnp.from_dlpack(data, copy=copy)
            assert taken.dtype == np.int16 and taken.tolist() == [0, 1, 2, 3, 4]
            data[0] = 7
            assert taken[0] == (7 if shared and not copy else 0)
    assert jnp.from_dlpack(np.zeros((0, 3), np.int8), copy=False).shape == (0, 3)
    with pytest.raises(TypeError, match="__dlpack__"):
        jnp.from_dlpack([1, 2])
