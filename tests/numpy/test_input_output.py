"""Arrays as text, in files, and in other libraries' memory."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import veery
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
        jnp.set_printoptions(precision=3)
        assert str(jnp.asarray([0.12345])) == "[0.123]"
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


class Offer:
    """An array of another library, of which nothing is known but how it exports its memory."""

    def __init__(self, x):
        self.x = x

    def __dlpack__(self, **options):
        return self.x.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "bool", "complex64", "uint8"])
def test_dtypes_of_others(dtype):
    x = jnp.asarray(np.arange(6).reshape(2, 3), dtype)
    for copy in (None, False, True):
        taken = jnp.from_dlpack(Offer(x), copy=copy)
        assert taken.dtype == x.dtype and taken.tolist() == x.tolist()
        assert (taken.unsafe_buffer_pointer() == x.unsafe_buffer_pointer()) != bool(copy)


def test_tensors_of_pytorch():
    torch = pytest.importorskip("torch")
    for name in ("bfloat16", "float16", "float32", "int8", "int32", "bool", "complex64"):
        tensor = torch.arange(6).reshape(2, 3).to(getattr(torch, name))
        for theirs in (tensor, tensor.T, tensor[:, ::2]):
            ours = jnp.from_dlpack(theirs)
            assert ours.dtype == jnp.dtype(name) and ours.tolist() == theirs.tolist()
            back = torch.from_dlpack(ours)
            assert back.dtype == theirs.dtype and back.tolist() == theirs.tolist()
            assert back.data_ptr() == ours.unsafe_buffer_pointer()
        assert jnp.from_dlpack(tensor).unsafe_buffer_pointer() == tensor.data_ptr() or tensor.data_ptr() % 64
    with pytest.raises(BufferError, match="require gradient"):
        jnp.from_dlpack(torch.ones(2, requires_grad=True))
    with pytest.raises(TypeError, match="no dtype for DLPack"):
        jnp.from_dlpack(torch.ones(2).to(torch.float8_e5m2))


def test_copies_outlive_what_is_donated():
    x = jnp.arange(4.0)
    copies = [jnp.array(x), jnp.copy(x), jnp.asarray(x, copy=True)]
    assert jnp.asarray(x) is x
    x.delete()
    assert [y.tolist() for y in copies] == [[0, 1, 2, 3]] * 3


def test_bfloat16_in_files(tmp_path):
    """NumPy saves it as bytes without a type."""
    x = jnp.arange(3, dtype=jnp.bfloat16)
    jnp.save(tmp_path / "x.npy", x)
    loaded = jnp.load(tmp_path / "x.npy")
    assert isinstance(loaded, veery.Array) and loaded.dtype == jnp.bfloat16 and loaded.tolist() == [0, 1, 2]
