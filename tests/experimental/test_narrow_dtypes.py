"""Arrays of int4 and its like, and of floats of 8 and 4 bits, beside JAX 0.10.2 (recorded/narrow_dtypes.json)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cases_narrow_dtypes import CASES
from support.recorded import check, read

import veery
import veery.numpy as jnp

RECORDED = read(Path(__file__).with_name("recorded") / "narrow_dtypes.json")
pytestmark = pytest.mark.compiler


@pytest.mark.parametrize("name", CASES)
def test_outcomes_are_those_of_jax(name):
    check(veery, CASES[name], RECORDED[name], rtol=0, atol=0)


def test_int2():
    x = jnp.array([-2, -1, 0, 1], jnp.int2)
    assert str(x) == "[-2 -1 0 1]" and x.dtype == jnp.int2
    found = veery.jit(lambda x: (x + x, x * x, -x, jnp.concatenate([x, x])[2:6], (x + x).astype(jnp.int32)))(x)
    assert [y.tolist() for y in found] == [
        [0, -2, 0, -2], [0, 1, 0, 1], [-2, 1, 0, -1], [0, 1, -2, -1], [0, -2, 0, -2],
    ]  # fmt: skip


def test_files(tmp_path):
    for name in ("int4", "float8_e3m4", "float4_e2m1fn"):
        x = jnp.array([0, 1, 3], name)
        jnp.save(tmp_path / name, x)
        found = jnp.load(tmp_path / f"{name}.npy")
        assert np.asarray(found).tobytes() == np.asarray(x).tobytes()


def test_updates_of_four_floats_of_4_bits():
    x = jnp.array([0, 1, 2, 3], "float4_e2m1fn")
    run = veery.jit(lambda x: (x.at[0].set(1), x.at[jnp.array([0, 1])].set(x[2:]), x.at[1:3].set(x[:2])))
    assert [y.astype(jnp.float32).tolist() for y in run(x)] == [[1, 1, 2, 3], [2, 3, 2, 3], [0, 0, 1, 3]]
