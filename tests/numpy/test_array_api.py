"""What the array API standard asks a namespace about itself: `__array_namespace_info__` and versions."""

from __future__ import annotations

import numpy as np
import pytest

import veery.numpy as jnp
from veery._core.config import enable_x64


def test_capabilities_and_devices():
    info = jnp.__array_namespace_info__()
    assert info.capabilities() == {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 64}
    jnp.zeros((1,) * info.capabilities()["max dimensions"])
    first, *others = info.devices()
    assert info.default_device() is first is None and others[0].platform == "cpu"


@pytest.mark.parametrize("x64", [False, True])
def test_dtypes(x64):
    with enable_x64(x64):
        info, bits = jnp.__array_namespace_info__(), 64 if x64 else 32
        defaults = info.default_dtypes()
        assert defaults["real floating"] == np.dtype(f"float{bits}") and defaults["integral"] == np.dtype(f"int{bits}")
        assert set(info.dtypes(kind="signed integer")) >= {"int8", "int16", "int32"}
        assert ("int64" in info.dtypes(kind="signed integer")) == x64
        assert info.dtypes(kind="bool") == {"bool": np.dtype(bool)}
        both = info.dtypes(kind=("bool", "real floating"))
        assert set(both) >= {"bool", "float32"} and "complex64" not in both
        assert "complex64" in info.dtypes()
        with pytest.raises(ValueError, match="decimal"):
            info.dtypes(kind="decimal")


def test_versions():
    x = jnp.ones(1)
    assert x.__array_namespace__(api_version=jnp.__array_api_version__) is jnp
    with pytest.raises(ValueError, match="1999.12"):
        x.__array_namespace__(api_version="1999.12")
