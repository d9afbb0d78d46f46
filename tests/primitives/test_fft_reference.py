"""Transforms by SciPy's library against NumPy's, in all types, dtypes and layouts; SciPy's compiled modules."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from support.samples import normal_samples

from veery.lax import _fft_reference
from veery.lax._fft import FftType
from veery.lax._scipy_extensions import extension

random = normal_samples(0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "shape", [(1,), (7,), (8,), (3, 8), (4, 5, 6), (2, 997), (0, 4), (5, 0, 3), (2, 0), (600, 500)]
)
def test_transforms(shape: tuple[int, ...], dtype: str) -> None:
    real = np.asarray(random(*shape), dtype)
    full = np.asarray(random(*shape, complex=True), np.result_type(dtype, np.complex64))
    half = full[..., : shape[-1] // 2 + 1] if shape[-1] else full
    theirs: dict[Any, Any] = {FftType.FFT: np.fft.fftn, FftType.IFFT: np.fft.ifftn, FftType.RFFT: np.fft.rfftn}
    theirs[FftType.IRFFT] = lambda x, axes: np.fft.irfftn(x, [shape[axis] for axis in axes], axes)
    cases = [(FftType.FFT, full), (FftType.IFFT, full), (FftType.RFFT, real), (FftType.IRFFT, half)]
    cases += [(FftType.FFT, real), (FftType.IFFT, real)]
    for count in range(1, len(shape) + 1):
        axes = tuple(range(len(shape) - count, len(shape)))
        lengths = tuple(shape[axis] for axis in axes)
        for kind, given in cases:
            for x in (given, np.asfortranarray(given), given[..., ::-1]):
                x.flags.writeable = False
                found = _fft_reference.transformed(x, fft_type=kind, fft_lengths=lengths)
                if 0 in lengths:
                    assert not found.any()
                    continue
                expected = theirs[kind](x, axes=axes)
                assert found.dtype == expected.dtype and found.shape == expected.shape
                scale = np.abs(expected).max(initial=1)
                np.testing.assert_allclose(found / scale, expected / scale, atol=1e-6 if dtype == "float32" else 1e-14)


def test_without_the_module_behind_scipys_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version of SciPy may have another one."""
    x, z = random(3, 4, 6), random(3, 4, 6, complex=True)
    cases = [(FftType.FFT, z), (FftType.IFFT, x), (FftType.RFFT, x), (FftType.IRFFT, z[..., :4])]
    ours = [_fft_reference.transformed(given, fft_type=kind, fft_lengths=(4, 6)) for kind, given in cases]
    monkeypatch.setattr(_fft_reference, "_library", lambda: None)
    for (kind, given), expected in zip(cases, ours, strict=True):
        found = _fft_reference.transformed(given, fft_type=kind, fft_lengths=(4, 6))
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, atol=1e-14)


@pytest.mark.parametrize("public", [False, True])
def test_zeros_of_real_numbers_are_positive(public: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The angle of -1 + 0j is pi, that of -1 - 0j is not."""
    if public:
        monkeypatch.setattr(_fft_reference, "_library", lambda: None)
    x = -np.eye(4)[:1]
    for kind in (FftType.FFT, FftType.IFFT):
        found = _fft_reference.transformed(x, fft_type=kind, fft_lengths=(4,))
        np.testing.assert_array_equal(np.angle(found), np.full((1, 4), np.pi))


def test_what_is_no_number_stays_in_its_row() -> None:
    x = np.ones((3, 8))
    x[1, 2] = np.nan
    found = _fft_reference.transformed(x, fft_type=FftType.RFFT, fft_lengths=(8,))
    assert np.isnan(found).any(-1).tolist() == [False, True, False]


def test_compiled_modules_come_without_their_packages() -> None:
    program = """if True:
        import sys
        from veery.lax import _fft_reference
        from veery.lax._scipy_extensions import extension
        names = "scipy.linalg.cython_lapack", _fft_reference._library().__spec__.name
        first = [extension(name) for name in names]
        print(sorted({"scipy.linalg", "scipy.fft", "scipy.special"} & sys.modules.keys()))
        import scipy.fft, scipy.linalg.cython_lapack
        print(float(abs(scipy.fft.fft([1.0, 1.0])[0])), float(scipy.linalg.det([[2.0]])))
        print([sys.modules[name].__doc__ == module.__doc__ for name, module in zip(names, first)])"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "2.0 2.0", "[True, True]"]


def test_a_module_that_is_no_file_is_imported() -> None:
    assert extension("scipy.linalg.blas") is __import__("scipy.linalg.blas", fromlist=["blas"])
    with pytest.raises(ImportError):
        extension("scipy.linalg.there_is_none")


def test_several_threads_that_need_a_module_first() -> None:
    program = """if True:
        from concurrent.futures import ThreadPoolExecutor
        from threading import Barrier
        from veery.lax._scipy_extensions import extension
        together = Barrier(8)
        def load(_):
            together.wait()
            return len(extension("scipy.linalg.cython_lapack").__pyx_capi__)
        with ThreadPoolExecutor(8) as pool:
            assert len(set(pool.map(load, range(8)))) == 1
    """
    for _ in range(3):
        subprocess.run([sys.executable, "-c", program], check=True)
