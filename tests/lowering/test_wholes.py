"""Products whose operands are padded and transposed before are what they are without."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.passes import run_everywhere

import veery
import veery.numpy as jnp

PRODUCTS = {
    "odd": ("mk,kn->mn", (131, 257), (257, 190)),
    "terms": ("mk,kn->mn", (128, 257), (257, 128)),
    "rows": ("mk,kn->mn", (131, 256), (256, 128)),
    "first transposed": ("km,kn->mn", (256, 128), (256, 131)),
    "second transposed": ("mk,nk->mn", (128, 256), (128, 256)),
    "batches": ("bmk,bkn->bmn", (5, 99, 70), (5, 70, 130)),
    "batches between": ("bqhd,bkhd->bhqk", (2, 67, 8, 64), (2, 67, 8, 64)),
    "whole": ("mk,kn->mn", (128, 256), (256, 128)),
    "small": ("mk,kn->mn", (17, 5), (5, 9)),
    "of vectors": ("mk,k->m", (1300, 1700), (1700,)),
    "no rows": ("mk,kn->mn", (0, 256), (256, 300)),
}


@pytest.mark.parametrize("dtype", ["float32", "int32", "float64"])
def test_products_are_as_before(dtype: str, monkeypatch: pytest.MonkeyPatch, x64: None) -> None:
    run_everywhere(monkeypatch, "complete_products")
    rng = np.random.default_rng(0)
    arrays = [[(rng.normal(size=s) * 3).astype(dtype) for s in shapes] for _, *shapes in PRODUCTS.values()]

    def program(arrays: Any) -> Any:
        products = [jnp.einsum(name, *each) for (name, *_), each in zip(PRODUCTS.values(), arrays)]
        (a, b), c = arrays[0], products[4]
        return products, jnp.maximum(jnp.tanh(a) @ b + 1, 0).sum(0), (c @ c.T).T @ c

    veery.config.update("jax_enable_compilation_cache", False)
    products, of_sum, chained = veery.jit(program)(arrays)
    wide = np.int64 if dtype == "int32" else np.float64
    near = {"float32": 2e-5, "float64": 1e-12, "int32": 0}[dtype]
    for (name, *_), each, found in zip(PRODUCTS.values(), arrays, products):
        right = np.einsum(name, *(x.astype(wide) for x in each))
        assert found.dtype == dtype
        np.testing.assert_allclose(found, right, rtol=near, atol=near * 100)
    a, b = (x.astype(np.float64) for x in arrays[0])
    c = np.einsum("mk,nk->mn", *(x.astype(wide) for x in arrays[4]))
    np.testing.assert_allclose(of_sum, np.maximum(np.tanh(a) @ b + 1, 0).sum(0), rtol=1e-4, atol=1e-2)
    if dtype != "int32":  # which overflows
        np.testing.assert_allclose(chained, (c @ c.T).T @ c, rtol=near * 10, atol=near * np.abs(c).max() ** 3 * 128)


def test_infinities_stay_in_their_rows_and_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    run_everywhere(monkeypatch, "complete_products")
    a, b = np.ones((131, 257), np.float32), np.ones((257, 190), np.float32)
    a[130, 256], b[256, 0] = np.inf, np.nan
    veery.config.update("jax_enable_compilation_cache", False)
    found = veery.jit(lambda a, b: a @ b)(a, b)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found, a @ b)
