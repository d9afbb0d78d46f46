"""Programs compile for CUDA architectures; where a CUDA device is at hand they run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.passes import leave_out

import veery
import veery.numpy as jnp
import veery_lowering
from veery import _dispatch, lax

_F32 = np.float32


def _mlp_gradient(w: Any, x: Any) -> Any:
    return veery.grad(lambda w: (jnp.tanh(x @ w) ** 2).sum())(w)


PROGRAMS = {
    "elementwise": (lambda x: jnp.sin(x) * jnp.exp(-x) + 1, [np.ones(1000, _F32)]),
    "softmax": (lambda x: jnp.exp(x) / jnp.exp(x).sum(axis=-1, keepdims=True), [np.ones((64, 100), _F32)]),
    "matmul": (lambda a, b: a @ b, [np.ones((64, 32), _F32), np.ones((32, 48), _F32)]),
    "gradient": (_mlp_gradient, [np.ones((16, 8), _F32), np.ones((32, 16), _F32)]),
    "loop": (lambda x: lax.fori_loop(0, 10, lambda i, c: c * 1.5 + i, x), [np.ones(8, _F32)]),
}


@pytest.mark.parametrize("architecture", ["sm_80", "sm_89"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_compile_for_an_architecture(name: str, architecture: str) -> None:
    fun, args = PROGRAMS[name]
    closed = veery.make_jaxpr(fun)(*args)
    program = _dispatch.lower_jaxpr(closed, name, f"cuda:{architecture}", (False,) * len(args)).compile()
    assert program.backend == "cuda" and architecture.encode() in program.vmfb


def test_slices_of_constants_that_are_reduced(monkeypatch: pytest.MonkeyPatch) -> None:
    """IREE takes them for zeros: when this fails, `compute_sliced_constants` can go."""
    mask = lambda: lax.slice(jnp.asarray(np.eye(6, dtype=bool)), (0, 0), (5, 6))
    closed = veery.make_jaxpr(lambda x, y: jnp.where(mask(), x[:5], 0).sum(1) * y)(np.ones((6, 6), _F32), _F32(2))

    def loads() -> int:
        """How often the code reads memory."""
        program = veery_lowering.compile(closed, target="cuda", options=veery_lowering.Options(cache=False))
        return program.vmfb.count(b"ld.global")

    assert loads() > 1
    leave_out(monkeypatch, "compute_sliced_constants")
    assert loads() == 1  # that of y


def test_unknown_architectures_are_refused_by_name() -> None:
    from veery_lowering.targets import resolve

    with pytest.raises(ValueError, match="unknown CUDA architecture 'sm_90'"):
        resolve("cuda:sm_90")


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_run_as_on_the_cpu(name: str) -> None:
    try:
        veery.devices("cuda")
    except RuntimeError as error:
        pytest.skip(str(error))
    fun, args = PROGRAMS[name]
    here, there = (veery.jit(fun)(*veery.device_put(args, veery.devices(p)[0])) for p in ("cpu", "cuda"))
    np.testing.assert_allclose(there, here, rtol=1e-5)
