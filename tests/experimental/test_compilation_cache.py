"""`experimental.compilation_cache`: the folder of programs."""

from __future__ import annotations

import pytest

import veery
import veery.numpy as jnp
from veery.experimental.compilation_cache import compilation_cache


@pytest.mark.compiler
def test_programs_go_to_the_folder(tmp_path):
    compilation_cache.set_cache_dir(tmp_path)
    compilation_cache.reset_cache()
    veery.jit(lambda x: x * 2.25)(jnp.ones(3))
    assert veery.config.jax_compilation_cache_dir == str(tmp_path)
    assert list(tmp_path.rglob("*.veery"))
