"""Traces and tracers that libraries define themselves, as Haiku does for its drawings of programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import veery
from veery import lax, numpy as jnp
from veery.core import Trace, Tracer
from veery.extend import core


class CountingTracer(Tracer):
    def __init__(self, trace: Trace, value: Any):
        super().__init__(trace, veery.typeof(value))
        self.value = value


class CountingTrace(Trace):
    """Counts operations, and has the trace around it do them."""

    def __init__(self, parent: Trace):
        super().__init__()
        self.outer = parent
        self.counts: Counter[str] = Counter()

    def inside(self, x: Any) -> Any:
        return x.value if isinstance(x, CountingTracer) else x

    def process_primitive(self, primitive: Any, tracers: Any, params: Any) -> Any:
        self.counts[str(primitive)] += 1
        avals = [veery.typeof(x) for x in tracers]
        out = primitive.bind_with_trace(self.outer, [self.inside(x) for x in tracers], avals, params)
        return veery.tree.map(lambda x: CountingTracer(self, x), out)

    def process_custom_jvp_call(self, primitive: Any, fun: Any, jvp: Any, tracers: Any, *, symbolic_zeros: bool) -> Any:
        self.counts[str(primitive)] += 1
        assert not symbolic_zeros and callable(jvp.call_wrapped)
        return fun.call_wrapped(*tracers)

    def process_custom_vjp_call(
        self, primitive: Any, fun: Any, fwd: Any, bwd: Any, tracers: Any, out_trees: Any, symbolic_zeros: bool
    ) -> Any:
        self.counts[str(primitive)] += 1
        assert not symbolic_zeros and callable(fwd.call_wrapped) and callable(bwd.call_wrapped)
        return fun.call_wrapped(*tracers)


def counted(fun: Callable[..., Any], counts: Counter[str]) -> Callable[..., Any]:
    """The function, which adds to the counts what it does."""

    def call(*args: Any) -> Any:
        with core.take_current_trace() as parent:
            trace = CountingTrace(parent)
            with core.set_current_trace(trace):
                out = fun(*(CountingTracer(trace, x) for x in args))
            counts.update(trace.counts)
            return veery.tree.map(trace.inside, out)

    return call


@veery.custom_jvp
def cube(x: Any) -> Any:
    return x * x * x


cube.defjvps(lambda t, out, x: 3 * x * x * t)


@veery.custom_vjp
def doubled(x: Any) -> Any:
    return 2 * x


doubled.defvjp(lambda x: (2 * x, None), lambda _, ct: (2 * ct,))


def program(x: Any, y: Any) -> Any:
    return {"a": jnp.sin(x) @ y, "b": lax.cond(True, jnp.cos, jnp.sin, cube(x) + doubled(y.sum()))}


ARGS = np.ones((2, 3), np.float32), np.full((3, 2), 0.5, np.float32)


def test_operations_are_seen_and_done() -> None:
    counts: Counter[str] = Counter()
    out = counted(program, counts)(*ARGS)
    for found, right in zip(veery.tree.leaves(out), veery.tree.leaves(program(*ARGS)), strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-6)
    assert counts["sin"] == counts["dot_general"] == counts["custom_jvp_call"] == counts["custom_vjp_call"] == 1
    assert counts["mul"] == 3 and counts["cond"] == 1


@pytest.mark.parametrize(
    "transform",
    [
        veery.jit,
        lambda f: veery.vmap(f, in_axes=(0, None)),
        lambda f: veery.grad(lambda x, y: f(x, y)["a"].sum()),
        lambda f: lambda x, y: veery.jvp(f, (x, y), (x, y)),
        veery.make_jaxpr,
    ],
    ids=["jit", "vmap", "grad", "jvp", "make_jaxpr"],
)
def test_transformations_around_them(transform: Any) -> None:
    counts: Counter[str] = Counter()
    simple = lambda x, y: {"a": jnp.sin(x) @ y}
    found, right = transform(counted(simple, counts))(*ARGS), transform(simple)(*ARGS)
    assert counts["sin"] == 1
    if transform is veery.make_jaxpr:
        assert str(found) == str(right)
    else:
        for a, b in zip(veery.tree.leaves(found), veery.tree.leaves(right), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)


def test_jitted_functions_are_one_operation() -> None:
    counts: Counter[str] = Counter()
    assert counted(veery.jit(lambda x: jnp.sin(x) + 1), counts)(np.float32(0)) == 1
    assert counts == {"jit": 1}


def test_calls_are_asked_whether_to_be_inlined() -> None:
    """Quax has rules for calls, and raises what it returns to its trace as older versions of JAX did."""
    seen: list[Any] = []

    class Looking(CountingTrace):
        def process_primitive(self, primitive: Any, tracers: Any, params: Any) -> Any:
            seen.append((primitive, {*params}, params.get("inline")))
            return super().process_primitive(primitive, tracers, params)

    with core.take_current_trace() as parent:
        trace = Looking(parent)
        with core.set_current_trace(trace):
            out = veery.jit(lambda x: x + 1)(CountingTracer(trace, np.float32(1)))
        assert seen == [(core.primitives.jit_p, {"jaxpr", "name", "inline"}, False)]
        with core.set_current_trace(trace):  # calls that transformations make, too
            veery.grad(veery.jit(lambda x: x * x))(CountingTracer(trace, np.float32(1)))
    calls = [(names, inline) for primitive, names, inline in seen if primitive is core.primitives.jit_p]
    assert len(calls) > 2 and all(call == ({"jaxpr", "name", "inline"}, False) for call in calls)
    assert trace.full_raise(out) is out and trace.inside(out) == 2
    assert "inline" not in str(veery.make_jaxpr(lambda x: veery.jit(jnp.sin)(x) + 1)(1.0))


def test_what_a_trace_does_not_do_is_said() -> None:
    class Bare(Trace):
        pass

    with core.set_current_trace(Bare()):
        with pytest.raises(NotImplementedError, match="Bare does not process primitives"):
            jnp.sin(1.0)
        with pytest.raises(NotImplementedError, match="Bare does not process functions with custom jvp rules"):
            cube(1.0)
        with pytest.raises(NotImplementedError, match="Bare does not process functions with custom vjp rules"):
            doubled(1.0)
