"""`experimental.xla_metadata`: programs that set it give what they give without it."""

from __future__ import annotations

import veery
import veery.numpy as jnp
from veery.experimental.xla_metadata import set_xla_metadata


def test_values_and_jaxprs_stay(references):
    def plain(x):
        return jnp.sin(x) * 2

    @set_xla_metadata(scheduling="early")
    def marked(x):
        with set_xla_metadata(group=1):
            return set_xla_metadata(jnp.sin(x), a="b") * 2

    assert str(veery.make_jaxpr(marked)(1.0)) == str(veery.make_jaxpr(plain)(1.0))
    assert marked(0.5) == plain(0.5)
    jitted = veery.jit(plain)
    assert set_xla_metadata(group=1)(jitted) is jitted
