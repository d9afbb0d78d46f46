"""pmap on eight virtual devices, in a process of its own: their number is fixed when the first is used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.compiler

ROOT = Path(__file__).parents[2]

HEADER = """
import numpy as np, pytest, veery
from veery import lax
x = np.arange(16.0, dtype=np.float32).reshape(8, 2) / 7
assert len(veery.devices()) == 8
"""

SCRIPTS = {
    "shards live on their devices": """
        y = veery.pmap(lambda a: lax.mul(a, a))(x)
        np.testing.assert_allclose(np.asarray(y), x * x, rtol=1e-6)
        assert y.devices() == set(veery.devices())
        assert [s.device.id for s in y.addressable_shards] == list(range(8))
        assert y.addressable_shards[3].index == (slice(3, 4), slice(None))
        piece = veery.jit(lax.neg)(y.addressable_shards[3].data)
        np.testing.assert_allclose(np.asarray(piece), -x[3:4] ** 2, rtol=1e-6)
        z = veery.pmap(lax.neg)(y)  # shards stay where they are
        np.testing.assert_allclose(np.asarray(z), -x * x, rtol=1e-6)
        whole = veery.jit(lambda a: lax.reduce_sum(a, (0, 1)))(y)  # and can be used as a whole
        np.testing.assert_allclose(float(np.asarray(whole)), (x * x).sum(), rtol=1e-5)
    """,
    "collectives exchange values": """
        def fun(a):
            i = lax.axis_index("i")
            return (lax.psum(a, "i"), lax.pmax(a, "i"), lax.pmin(a, "i"), lax.all_gather(a, "i"), i,
                    lax.ppermute(a, "i", [(j, (j + 1) % 8) for j in range(8)]), lax.pmean(a, "i"),
                    lax.psum(a, "i", axis_index_groups=[[0, 1, 2, 3], [4, 5, 6, 7]]))
        for ours, theirs in zip(veery.pmap(fun, axis_name="i")(x), veery.vmap(fun, axis_name="i")(x)):
            np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=1e-6)
        square = np.arange(128.0, dtype=np.float32).reshape(8, 8, 2)
        for fun in (lambda a: lax.all_to_all(a, "i", 0, 1), lambda a: lax.psum_scatter(a, "i")):
            np.testing.assert_allclose(
                np.asarray(veery.pmap(fun, axis_name="i")(square)), np.asarray(veery.vmap(fun, axis_name="i")(square)))
    """,
    "collectives in loops and branches": """
        def fun(a):
            y, sums = lax.scan(lambda c, _: (lax.mul(lax.pmean(c, "i"), 0.5), lax.psum(c, "i")), a, None, length=4)
            return lax.cond(lax.gt(lax.reduce_sum(sums, (0, 1)), 0.0), lambda: lax.psum(y, "i"), lambda: y)
        np.testing.assert_allclose(
            np.asarray(veery.pmap(fun, axis_name="i")(x)), np.asarray(veery.vmap(fun, axis_name="i")(x)), rtol=1e-5)
    """,
    "derivatives": """
        fun = lambda w, a: lax.mul(lax.sin(a), lax.psum(lax.mul(a, w), "i"))
        each = lambda m: lambda w, a: lax.reduce_sum(m(fun, axis_name="i", in_axes=(None, 0))(w, a), (0, 1))
        ours = veery.grad(each(veery.pmap), argnums=(0, 1))(np.float32(0.3), x)
        theirs = veery.grad(each(veery.vmap), argnums=(0, 1))(np.float32(0.3), x)
        for a, b in zip(ours, theirs):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5)
        inner = lambda a: lax.mul(lax.sin(a), lax.psum(a, "i"))
        nested = lambda m: m(veery.vmap(veery.jit(veery.grad(inner))), axis_name="i")(x)
        np.testing.assert_allclose(np.asarray(nested(veery.pmap)), np.asarray(nested(veery.vmap)), rtol=1e-5)
        jitted = veery.jit(veery.pmap(inner, axis_name="i"))(x)
        np.testing.assert_allclose(np.asarray(jitted), np.asarray(veery.pmap(inner, axis_name="i")(x)), rtol=1e-6)
        out, tangent = veery.jvp(veery.pmap(inner, axis_name="i"), (x,), (np.ones_like(x),))
        expected = veery.jvp(veery.vmap(inner, axis_name="i"), (x,), (np.ones_like(x),))[1]
        np.testing.assert_allclose(np.asarray(tangent), np.asarray(expected), rtol=1e-5)
        both = veery.pmap(lambda a, b: (lax.neg(a), lax.neg(b)))  # what does not depend on a batch is not batched
        assert veery.vmap(both, in_axes=(1, None), out_axes=(1, None))(np.stack([x, x], 1), x)[1].shape == (8, 2)
        batched = veery.vmap(veery.pmap(inner, axis_name="i"), in_axes=1, out_axes=1)(np.stack([x, 2 * x], 1))
        expected = np.asarray(veery.vmap(inner, axis_name="i")(2 * x))
        np.testing.assert_allclose(np.asarray(batched[:, 1]), expected, rtol=1e-5)
    """,
    "calls return before the work is done": """
        import threading
        gate = threading.Event()
        def wait(a):
            gate.wait()
            return 2 * a
        call = veery.pmap(lambda a: veery.pure_callback(wait, veery.ShapeDtypeStruct(a.shape, a.dtype), a),
                          donate_argnums=0)
        given = veery.pmap(lax.neg)(x)
        y = call(given)
        z = veery.pmap(lax.neg)(y)  # what depends on it neither
        total = veery.pmap(lambda a: lax.psum(a, "i"), axis_name="i", out_axes=None)(z)
        assert given.is_deleted() and not y.is_ready() and not z.is_ready() and not total.is_ready()
        gate.set()
        np.testing.assert_allclose(np.asarray(total), 2 * x.sum(0), rtol=1e-5)
        np.testing.assert_array_equal(np.asarray(y), -2 * x)
        def fail(a):
            raise KeyError("lost")
        bad = veery.pmap(lambda a: veery.pure_callback(fail, veery.ShapeDtypeStruct(a.shape, a.dtype), a))(x)
        later = veery.pmap(lax.neg)(bad)
        for each in (bad, later):
            with pytest.raises(KeyError, match="lost"):
                np.asarray(each)
        identity = veery.pmap(lambda a: a)(x)  # a result on an argument's memory is not given away
        piece = identity.addressable_shards[0].data
        veery.jit(lambda a: a.at[0].set(9), donate_argnums=0)(piece)
        np.testing.assert_array_equal(np.asarray(veery.pmap(lax.neg)(identity)), -x)
    """,
    "axes, static and donated arguments": """
        fun = veery.pmap(lambda n, a, b: lax.add(lax.mul(a, float(n)), b), in_axes=(None, 1, None),
                         out_axes=1, static_broadcasted_argnums=0)
        np.testing.assert_allclose(np.asarray(fun(3, x.T, np.float32(1))), 3 * x.T + 1, rtol=1e-6)
        same = veery.pmap(lambda a: lax.psum(a, "i"), axis_name="i", out_axes=None)(x)
        np.testing.assert_allclose(np.asarray(same), x.sum(0), rtol=1e-5)
        turned = veery.pmap(lax.neg, out_axes=1)(x)  # slices stay on their devices, there and back
        assert [s.data.shape for s in turned.addressable_shards] == [(2, 1)] * 8
        back = veery.pmap(lax.neg, in_axes=1)(turned)
        np.testing.assert_array_equal(np.asarray(turned), -x.T)
        np.testing.assert_array_equal(np.asarray(back), x)
        lowered = fun.lower(3, x.T, np.float32(1))
        assert "stablehlo.multiply" in lowered.as_text()
        np.testing.assert_allclose(np.asarray(lowered.compile()(x.T, np.float32(1))), 3 * x.T + 1, rtol=1e-6)
        two = veery.pmap(lax.neg, devices=veery.devices()[4:6])(x[:2])
        assert {d.id for d in two.devices()} == {4, 5}
        given = veery.device_put(x)
        veery.pmap(lax.neg, donate_argnums=0)(given)
        assert given.is_deleted()
    """,
    "errors": """
        with pytest.raises(ValueError, match="must be non-empty, or None"):
            veery.pmap(lax.neg, devices=[])
        with pytest.raises(ValueError, match="requires 9 logical devices, but only 8"):
            veery.pmap(lax.neg)(np.ones(9, np.float32))
        with pytest.raises(ValueError, match="pmap got inconsistent sizes"):
            veery.pmap(lax.add)(np.ones(3, np.float32), np.ones(4, np.float32))
        with pytest.raises(ValueError, match="at least one non-None value in in_axes"):
            veery.pmap(lax.neg, in_axes=None)(x)
        with pytest.raises(ValueError, match="along axis 2, which implies that its rank should be at least 3"):
            veery.pmap(lax.neg, in_axes=2)(x)
        with pytest.raises(ValueError, match="axis 5 is out of bounds"):
            veery.pmap(lax.neg, out_axes=5)(x)
        with pytest.raises(TypeError, match="in_axes and out_axes must be an int, None"):
            veery.pmap(lax.neg, in_axes="a")
        static = veery.pmap(lambda a, n: lax.mul(a, float(n)), static_broadcasted_argnums=1)
        with pytest.raises(ValueError, match="must be passed positionally"):
            static(x, n=3)
        with pytest.raises(ValueError, match="Non-hashable static arguments"):
            static(x, [3])
        with pytest.raises(ValueError, match="cannot intersect"):
            veery.pmap(lax.neg, static_broadcasted_argnums=0, donate_argnums=0)
        with pytest.raises(NameError, match="unbound axis name: j"):
            veery.pmap(lambda a: lax.psum(a, "j"), axis_name="i")(x)
        def diverging(a):
            more = lambda: lax.scan(lambda c, _: (lax.psum(c, "i"), None), a, None, length=3)[0]
            return lax.cond(lax.gt(lax.axis_index("i"), 1), more, lambda: a)
        with pytest.raises(RuntimeError, match="others never reach"):
            np.asarray(veery.pmap(diverging, axis_name="i")(x))
        np.testing.assert_allclose(np.asarray(veery.pmap(lax.neg)(x)), -x)  # later calls work
    """,
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_on_eight_devices(name):
    import textwrap

    script = HEADER + textwrap.dedent(SCRIPTS[name])
    path = os.pathsep.join(str(ROOT / folder) for folder in ("frontend", "lowering", "runtime"))
    environment = {**os.environ, "VEERY_NUM_CPU_DEVICES": "8", "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
