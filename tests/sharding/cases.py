"""What meshes, shardings and `shard_map` do, as expressions and programs that JAX runs too, on eight devices."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from support.recorded import module

X = np.arange(16.0, dtype=np.float32).reshape(8, 2) / 7
SQUARE = np.linspace(-1.0, 1.5, 128, dtype=np.float32).reshape(8, 4, 4)


def names(jax: Any) -> dict[str, Any]:
    """What expressions refer to."""
    sharding = jax.sharding
    mesh = sharding.Mesh(np.array(jax.devices()[:8]).reshape(4, 2), ("x", "y"))
    return {
        "jax": jax,
        "jnp": jax.numpy,
        "lax": jax.lax,
        "np": np,
        "P": sharding.PartitionSpec,
        "Mesh": sharding.Mesh,
        "AbstractMesh": sharding.AbstractMesh,
        "AxisType": sharding.AxisType,
        "Single": sharding.SingleDeviceSharding,
        "Named": sharding.NamedSharding,
        "S": lambda *spec: sharding.NamedSharding(mesh, sharding.PartitionSpec(*spec)),
        "put": lambda x, *spec: jax.device_put(x, sharding.NamedSharding(mesh, sharding.PartitionSpec(*spec))),
        "m": mesh,
        "e": jax.make_mesh((4, 2), ("x", "y"), devices=jax.devices()[:8]),
        "d": jax.devices()[:8],
        "x": X,
        "v": np.arange(8.0, dtype=np.float32),
        "sm": lambda f, i, o, **k: jax.shard_map(f, mesh=mesh, in_specs=i, out_specs=o, **k),
        "utils": module(jax, "experimental.mesh_utils"),
        "hosts": module(jax, "experimental.multihost_utils"),
        "layout": module(jax, "experimental.layout"),
        "pjit": module(jax, "experimental.pjit").pjit,
        "old": module(jax, "experimental.shard_map").shard_map,
    }


def shown(jax: Any, value: Any) -> Any:
    """Arrays with where they are; anything else as text."""

    def one(leaf: Any) -> Any:
        if isinstance(leaf, jax.Array):
            return leaf, repr(leaf.sharding)
        return leaf if isinstance(leaf, np.ndarray) and leaf.dtype != object else repr(leaf)

    return jax.tree_util.tree_map(one, value)


def evaluated(text: str, context: str | None = None) -> Callable[[Any], Any]:
    def case(jax: Any) -> Any:
        space = names(jax)
        with contextlib.ExitStack() as stack, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if context is not None:
                stack.enter_context(eval(context, space))
            return shown(jax, eval(text, space))

    return case


# By the context in which they are evaluated.
EXPRESSIONS: dict[str | None, str] = {
    None: """
P()
P("x", None)
P(("x", "y"))
P(("x",)), P(()), P(["x", "y"])
P(("x",)) == P("x"), P("x") == ("x",), P(None) == P(), P() == P(None, None)
P(P.UNCONSTRAINED), P.UNCONSTRAINED
P("x", unreduced={"y"}), P("x", unreduced={"y"}).unreduced
P("x", "y") + P("z"), P("x") + ("y",)
P("x", "y")[1], list(P("x", "y")), len(P("x")), P("x", None).index("x"), P("x", None).count(None)
isinstance(P("x"), tuple), jax.tree.leaves(P("x", "y")), P(None, "x").partitions
__import__("pickle").loads(__import__("pickle").dumps(P("x", None)))
m, str(m), m.shape, m.size, m.empty, m.axis_names, m.axis_sizes, m.shape_tuple, m.axis_types
m.local_mesh, m.device_ids, m.is_multi_process, m.auto_axes, m.manual_axes, m.explicit_axes, m.are_all_axes_auto
m.abstract_mesh, m.abstract_mesh.abstract_device, m.abstract_mesh.shape, m.abstract_mesh.size
m == Mesh(m.devices, ("x", "y")), hash(m) == hash(Mesh(m.devices, ("x", "y"))), m == e
m.update(axis_names=("a", "b")), __import__("copy").deepcopy(m) is m
e, e.abstract_mesh, e.explicit_axes
m.abstract_mesh.update_axis_types({"x": AxisType.Explicit})
AbstractMesh((2,), ("x",)), AbstractMesh((2,), ("x",)) == AbstractMesh((2,), ("x",))
AbstractMesh((2,), ("x",), axis_types=(AxisType.Explicit,)), AbstractMesh((2,), ("x",)).update(axis_sizes=(4,))
AbstractMesh((2,), ("x",)).devices
AbstractMesh((4, 2), ("x", "y")).device_ids
AbstractMesh((2,), ("x", "y"))
Mesh(d, ("x", "y"))
Mesh(d, "x"), Mesh(d[0], ())
Mesh(np.array(d[:2]), ("x",), axis_types=AxisType.Explicit)
Mesh(np.array(d[:2]), ("x",), axis_types=(AxisType.Explicit, AxisType.Auto))
Mesh(np.array(d[:2]), ("x",), axis_types=("a",))
jax.make_mesh((64,), ("x",))
jax.make_mesh((2,), ("x",)), jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
jax.make_mesh((2,), ("x", "y"))
jax.make_mesh((4, 2), ("x", "y"), axis_types=AxisType.Auto)
jax.sharding.get_mesh(), jax.sharding.get_abstract_mesh(), jax.sharding.get_abstract_mesh().empty
jax.set_mesh(3)
list(AxisType), AxisType.Explicit.value
S("x"), S("z")
Named(m, P("x", "x"))
Named(m, None)
Named(m, P("x"), memory_kind="foo")
S("x").shard_shape((8, 3)), S(("x", "y")).shard_shape((8, 3)), S(None, "y").shard_shape((3, 4))
S("x").shard_shape((7, 3))
S("x").devices_indices_map((8, 3))
S(("x", "y")).addressable_devices_indices_map((16,))
S(("y", "x")).devices_indices_map((16,))
S(None, "y").devices_indices_map((3, 4))
S("x").is_equivalent_to(S("x", None), 2), S("x") == S("x", None), hash(S("x")) == hash(S("x"))
S("x").is_equivalent_to(S("y"), 1), S().is_equivalent_to(Single(d[0]), 1)
Named(Mesh(d[:1], "x"), P("x")).is_equivalent_to(Single(d[0]), 1)
S().is_fully_replicated, S("x").is_fully_replicated, S("x").memory_kind, S("x").spec, S("x").num_devices
S("x").replicated_axes, S("x").is_fully_addressable, S("x").has_addressable_devices, len(S("x").device_set)
S("x").update(spec=P("y")), S("x").with_memory_kind("device"), S("x").check_compatible_aval((7,))
S("x").check_compatible_aval(())
Named(m.abstract_mesh, P("x"))
Named(m.abstract_mesh, P("x")).device_set
put(v, "x"), put(x, "x", "y"), put(x, ("y", "x")), put(1.0)
put(v[:7], "x")
put(v, None, "x")
jax.device_put(v, P("x"))
jax.device_put(v, Named(m.abstract_mesh, P("x")))
jax.device_put({"a": v, "b": v}, S("x")), jax.device_put({"a": v, "b": v}, {"a": S("x"), "b": S("y")})
jax.device_put([v], [S("x")] * 2)
jax.device_put("a", S("x"))
put(v, "x").addressable_shards
put(v, "y").global_shards[3], put(v).addressable_shards[3].replica_id, put(v, "x").addressable_data(1)
put(v, "y").addressable_shards[3].data, put(v, "x").on_device_size_in_bytes(), put(v, "x").is_fully_replicated
put(v, "x").committed, put(v, "x").device, len(put(v, "x").devices()), put(v, "x").format
put(v, "x").__dlpack__()
jax.device_put(put(v, "x"), d[3]), jax.device_put(put(v, "x")), jax.device_put(put(v, "x"), S("y"))
put(v, "x") + 1, put(v, "x") + put(v, "x"), put(v, "x") + v, put(v, "x").sum(), put(v, "x")[0], put(v, "x").copy()
jnp.ones((4, 2), device=S("x")), jnp.asarray(np.ones((4, 2)), device=S("x")), jnp.zeros((8,), device=S("x"))
jnp.zeros_like(put(v, "x")), jnp.full((4,), 2, jnp.float32, device=S("y"))
[f(put(v, "x"), shape=s) for f in (jnp.zeros_like, jnp.ones_like, jnp.empty_like) for s in ((8,), (4, 2), (3,))]
jnp.full_like(put(v, "x"), 3), jnp.full_like(put(v), 3, shape=(2, 3)), jnp.full_like(put(v, "x"), 3, device=S("y"))
[f(jax.ShapeDtypeStruct((8,), jnp.float32, sharding=S("x"))) for f in (jnp.zeros_like, jnp.ones_like, jnp.empty_like)]
jnp.zeros_like(jax.device_put(v, d[3])), jnp.zeros_like(jax.device_put(v, d[3]), shape=(2,)), jnp.ones_like(v)
lax.full_like(put(v, "x"), 3), lax.full_like(jnp.ones(8), 3, sharding=S("x")), lax.full((8,), 3, float, sharding=S("y"))
lax.full_like(jax.device_put(v, d[3]), 3, shape=(2,)), jax.jit(lambda: lax.full((8,), 3.0, sharding=S("y")))()
jax.jit(lambda a, b: a + b)(put(v, "y"), jax.device_put(v, d[1]))
jax.make_array_from_callback((8,), S("x"), lambda i: v[i])
jax.make_array_from_callback((8,), S("x"), lambda i: np.arange(3.0))
jax.make_array_from_callback((7,), S("x"), lambda i: v[i])
jax.make_array_from_process_local_data(S("x"), v)
jax.make_array_from_process_local_data(S("x"), v, (16,))
jax.make_array_from_process_local_data(S("x"), v[:7])
jax.make_array_from_single_device_arrays((8,), S(("x", "y")), [jax.device_put(v[i : i + 1], d[i]) for i in range(8)])
jax.make_array_from_single_device_arrays((8,), S("x"), [jnp.ones(2)])
jax.make_array_from_single_device_arrays((8,), S(("x", "y")), [jax.device_put(v[:2], d[i]) for i in range(8)])
jax.make_array_from_single_device_arrays((8,), S(("x", "y")), [jnp.ones(1)] * 8)
jax.make_array_from_single_device_arrays((8,), S("x"), [])
lax.with_sharding_constraint(v, S("x")), lax.with_sharding_constraint({"a": v}, {"a": S("y")})
lax.with_sharding_constraint(v[:7], S("x"))
lax.with_sharding_constraint(v, P("x"))
lax.with_sharding_constraint(v, None)
lax.with_sharding_constraint(v, Named(e, P("x")))
jax.vmap(lambda a: lax.with_sharding_constraint(a, S("y")))(x)
jax.vmap(lambda a: lax.with_sharding_constraint(a, S("y")), spmd_axis_name="x")(x)
jax.grad(lambda a: lax.with_sharding_constraint(a, S("x")).sum())(v)
jax.jit(lambda a: lax.with_sharding_constraint(a * 2, S("x")))(v)
jax.reshard(v, S("x"))
jax.reshard(v, P("x"))
jax.reshard(v, Named(e, P("x")))
jax.jit(lambda a: a * 2, in_shardings=S("x"), out_shardings=S("y"))(v)
jax.jit(lambda a: a * 2, in_shardings=S("x"))(v[:7])
jax.jit(lambda a: a * 2, out_shardings=S("x"))(v[:7])
jax.jit(lambda a: a * 2, out_shardings=P("x"))(v)
jax.jit(lambda a: a * 2, in_shardings=(P("x"),))(v)
jax.jit(lambda a: a * 2, in_shardings=(S("x"),) * 2)(v)
jax.jit(lambda a: a * 2, out_shardings=(S("x"),) * 2)(v)
jax.jit(lambda a: a * 2, in_shardings="x")(v)
jax.jit(lambda a: a * 2, in_shardings=S("x"))(put(v, "y"))
jax.jit(lambda a: a * 2, in_shardings=S("x"))(jax.device_put(v, d[1]))
jax.jit(lambda a: a * 2, in_shardings={"a": S("x")})({"a": v})
jax.jit(lambda t: t["a"], in_shardings=({"a": S("x")},))({"a": v})
jax.jit(lambda a, b: (a, {"c": b}), in_shardings=(S("x"), None), out_shardings=(S("y"), {"c": S()}))(v, v)
jax.jit(lambda a, *, b: a, in_shardings=(S("x"),))(v, b=v)
jax.jit(lambda n, a: a * n, static_argnums=0, in_shardings=(S("x"),))(3, v)
jax.jit(lambda a: a, out_shardings=S("x"), donate_argnums=0)(put(v, "x"))
jax.jit(lambda a: a, in_shardings=None, out_shardings=None)(v)
jax.jit(lambda a: a + 1).lower(jax.ShapeDtypeStruct((8,), jnp.float32, sharding=S("x"))).compile()(put(v, "x"))
jax.jit(lambda a: a + 1).lower(jax.ShapeDtypeStruct((8,), jnp.float32, sharding=S("x"))).compile().input_shardings
jax.jit(lambda a: a + 1, out_shardings=S("x")).lower(v).compile().output_shardings
jax.jit(lambda a: a + 1).lower(v).compile().output_shardings
jax.jit(lambda a: a + 1).lower(x).compile().input_formats
jax.jit(lambda a: a + 1, out_shardings=S("x")).eval_shape(v)
jax.ShapeDtypeStruct((8,), jnp.float32, sharding=S("x"))
pjit(lambda a: a * 2, S("x"), S("y"))(v)
jax.typeof(v).sharding, jax.typeof(jnp.ones(3)).manual_axis_type
jax.pmap(lambda a: a)(x).sharding, jax.pmap(lambda a: a, axis_name="i", out_axes=1)(x).sharding
jax.pmap(lambda a: a, axis_name="i")(x).addressable_shards[3]
utils.create_device_mesh((4, 2), d), utils.create_device_mesh((2,), d[:2])
utils.create_device_mesh((16,), d)
utils.create_hybrid_device_mesh((4, 2), (1, 1), d, process_is_granule=True)
utils.create_hybrid_device_mesh((4,), (2,), d)
hosts.process_allgather(v).shape, hosts.process_allgather(put(v, "x"), tiled=True), hosts.sync_global_devices("a")
hosts.broadcast_one_to_all({"a": v}), hosts.assert_equal(v), hosts.reached_preemption_sync_point(3)
hosts.host_local_array_to_global_array((v, v), m, (P("x"), P(None)))
hosts.global_array_to_host_local_array(put(v, "x"), m, P())
layout.Layout((0, 1)), layout.Format(layout.Layout((0, 1)), S("x")), layout.Format(None, S("x")), layout.Format()
layout.Format(layout.Layout((1, 0)))
layout.Format("a")
layout.Layout((0, 1)) == layout.Layout((0, 1)), layout.with_layout_constraint(jnp.ones((2, 3)), layout.Layout((0, 1)))
layout.with_layout_constraint(jnp.ones((2, 3)), layout.Layout((0, 1, 2)))
jax.device_put(x, layout.Format(layout.Layout((0, 1)), S("x")))
jax.distributed.is_initialized(), jax.distributed.shutdown()
jax.debug.inspect_array_sharding(put(v, "x"), callback=lambda s: None)
sm(lambda a: a, P("x"), P())(x)
sm(lambda a: lax.psum(a, "x"), P("x", "y"), P())(x)
sm(lambda a: a, P("x"), P("x"))(x[:7])
sm(lambda a: a, P("x", "y", "x"), P("x"))(x)
sm(lambda a: a, P(None, None, "x"), P("x"))(x)
sm(lambda a: a, (P("x"), P("x")), P("x"))(x)
sm(lambda a: a, P("x"), (P("x"), P("x")))(x)
sm(lambda a: a.sum(), P("x"), P("x"))(x)
sm(lambda a: 3.0, P("x"), P())(x)
sm(lambda a: 3.0, P("x"), P("x"))(x)
sm(lambda a: "s", P("x"), P())(x)
sm(lambda a: a, P("z"), P())(x)
sm(lambda a: a, P("x"), P("z"))(x)
sm(lambda a: a, "x", P("x"))(x)
sm(lambda a: a, P("x"), None)(x)
sm(lambda a: a, None, P())(x)
sm(lambda a: lax.all_gather(a, "x"), P("x"), P())(x)
sm(lambda a: lax.all_gather(a, "x", to="invarying"), P("x"), P())(x)
sm(lambda a: lax.pcast(a, "x", to="varying"), P("x"), P("x"))(x)
sm(lambda a: lax.pcast(a, "x", to="foo"), P(), P())(x)
sm(lambda a: lax.ppermute(a, "x", [(0, 1), (0, 2)]), P("x"), P("x"))(x)
sm(lambda a: lax.pswapaxes(a, "x", 0), P("y"), P("x"))(x)
sm(lambda a: (lax.axis_size("x"), lax.axis_size(("x", "y")), lax.psum(1, "x")), P("x"), P())(x)
sm(lambda a: sm(lambda b: b, P("y"), P("y"))(a), P("x"), P("x"))(x)
jax.shard_map(lambda a: a, mesh=m, in_specs=P("x"), out_specs=P("x"), axis_names={"z"})(x)
jax.shard_map(lambda a: a, mesh=m, in_specs=P("y"), out_specs=P("y"), axis_names={"x"})(x)
jax.shard_map(lambda a: a * lax.psum(a, "x"), mesh=m, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})(x)
jax.shard_map(lambda a: a, in_specs=P("x"), out_specs=P("x"))(x)
jax.shard_map(lambda a: a, mesh=m, out_specs=P("x"))(x)
jax.shard_map(3, mesh=m, in_specs=P("x"), out_specs=P("x"))
jax.shard_map(lambda a: a, mesh=m.abstract_mesh, in_specs=P("x"), out_specs=P("x"))(x)
jax.shard_map(lambda a: a, mesh=m.abstract_mesh, in_specs=P("x"), out_specs=P("x"))(put(x))
jax.shard_map(mesh=m, in_specs=P("x"), out_specs=P("x"))(lambda a: a)(x)
old(lambda a: a * lax.psum(a, "x"), m, P("x"), P("x"), check_rep=False)(x)
jax.vmap(sm(lambda a: a * lax.psum(a, "x"), P("x"), P("x")), spmd_axis_name="y")(np.stack([x, x]))
jax.jit(sm(lambda a: a * lax.psum(a, "x"), P("x"), P("x")))(x)
jax.smap(lambda a: a, in_axes=0, out_axes=0, axis_name="x")(x)
""",
    "jax.set_mesh(e)": """
jax.sharding.get_mesh(), jax.sharding.get_abstract_mesh()
jax.device_put(v, P("x")), jax.reshard(v, P("x")), jax.reshard({"a": v}, {"a": P(("x", "y"))})
lax.with_sharding_constraint(v, P("x"))
lax.with_sharding_constraint(jax.device_put(v, P("x")), P("x"))
jax.jit(lambda a: a * 2, out_shardings=P("x"))(v)
jax.jit(lambda a: jax.sharding.get_mesh())(v)
jnp.zeros((8,), out_sharding=P("x")), jnp.ones((8, 2), out_sharding=P("x", None))
jax.smap(lambda a: a * lax.axis_index("x"), in_axes=0, out_axes=0, axis_name="x")(v)
jax.shard_map(lambda a: a * 2, out_specs=P("x"))(jax.device_put(v, P("x")))
jax.sharding.auto_axes(lambda a: a * 2, out_sharding=P("x"))(jax.device_put(v, P("x")))
jax.sharding.auto_axes(lambda a: a * 2)(v)
jax.sharding.explicit_axes(lambda a: a * 2)(v)
""",
    "m": """
pjit(lambda a: a * 2, P("x"), P("y"))(v)
pjit(lambda a: a * 2, out_shardings=P(("x", "y")))(v)
jax.jit(lambda a: a * 2, in_shardings=P("x"))(v)
jax.sharding.get_mesh(), jax.sharding.get_abstract_mesh()
lax.with_sharding_constraint(v, P("x"))
jax.jit(lambda a: a * 2, out_shardings=P("x"))(v)
jax.device_put(v, P("x"))
""",
    "jax.set_mesh(m)": """
jax.sharding.get_mesh(), jax.jit(lambda a: jax.sharding.get_abstract_mesh().axis_names and a)(v).shape
lax.with_sharding_constraint(v, P("x")), jax.device_put(v, P("x"))
jax.jit(lambda a: a * 2, in_shardings=P("x"), out_shardings=P("y"))(v)
jax.reshard(v, P("x"))
jax.shard_map(lambda a: a * lax.psum(a, "x"), in_specs=P("x"), out_specs=P("x"))(v)
""",
}


# Programs of each device, with the specs of their arguments and results.

BODIES: dict[str, tuple[Callable[..., Any], str, str]] = {
    "psum": (lambda lax, jnp, a: jnp.sin(a) * lax.psum(a, "x"), "P('x'),", "P('x')"),
    "sum over both": (lambda lax, jnp, a: lax.psum(jnp.sin(a) * a, ("x", "y")), "P('x', 'y'),", "P()"),
    "pmean of what all share": (lambda lax, jnp, a: lax.pmean(a * a, "x"), "P(),", "P()"),
    "pmax": (lambda lax, jnp, a: a * lax.pmax(jnp.cos(a), "x") - lax.pmin(a, "y"), "P('x', 'y'),", "P('x', 'y')"),
    "all_gather": (
        lambda lax, jnp, a: jnp.sin(lax.all_gather(a, "x", tiled=True)) * lax.axis_index("x"),
        "P('x', 'y'),", "P('x', 'y')",
    ),
    "all_gather over both": (lambda lax, jnp, a: lax.all_gather(a * a, ("x", "y")), "P('x', 'y'),", "P('x', 'y')"),
    "all_gather for all": (
        lambda lax, jnp, a: jnp.cos(lax.all_gather(a, "y", axis=1, tiled=True, to="invarying")), "P('x', 'y'),",
        "P('x')",
    ),
    "psum_scatter": (
        lambda lax, jnp, a: jnp.sin(lax.psum_scatter(a * a, "x", scatter_dimension=1, tiled=True)), "P('x'),",
        "P(None, 'x')",
    ),
    "all_to_all": (
        lambda lax, jnp, a: jnp.exp(lax.all_to_all(a, "x", 1, 0, tiled=True)) * a.sum(), "P('x'),", "P(None, 'x')",
    ),
    "ppermute": (
        lambda lax, jnp, a: a * lax.ppermute(jnp.sin(a), "x", [(i, (i + 1) % 4) for i in range(3)]), "P('x', 'y'),",
        "P('x', 'y')",
    ),
    "ppermute over both": (
        lambda lax, jnp, a: a * lax.ppermute(a, ("x", "y"), [(i, 7 - i) for i in range(8)]), "P(('x', 'y')),",
        "P(('x', 'y'))",
    ),
    "shared and divided": (
        lambda lax, jnp, a, w: lax.psum((jnp.sin(a) * w[: a.shape[-1]]).sum(), "x"), "P('x'), P(None)", "P()",
    ),
    "shared, not summed": (lambda lax, jnp, a, w: a * w * w.sum(), "P('x'), P(None, None)", "P('x')"),
    "a loss and its gradient inside": (
        lambda lax, jnp, a, w: _gradient(lambda w: (jnp.sin(a) * w).mean(), w), "P('x'), P()", "P()",
    ),
    "scan": (lambda lax, jnp, a, w: _scanned(lax, jnp, a, w), "P('x'), P()", "P('x')"),
    "branches": (
        lambda lax, jnp, a, w: _branches(lax, a, lax.pcast(w, "x", to="varying"))[None], "P('x'), P()", "P('x')",
    ),
    "while": (
        lambda lax, jnp, a: lax.while_loop(lambda c: c[1] < 3, lambda c: (c[0] * 0.5 + lax.psum(c[0], "x"), c[1] + 1),
                                           (a, 0))[0],
        "P('x'),", "P('x')",
    ),
    "jit and vmap inside": (
        lambda lax, jnp, a: _jax.jit(_jax.vmap(lambda r: r * lax.psum(jnp.tanh(r), "x")))(a), "P('x'),", "P('x')",
    ),
    "a rule of its own": (lambda lax, jnp, a, w: _with_rule(lax)(a, w), "P('x'), P()", "P('x')"),
    "checkpoint": (
        lambda lax, jnp, a, w: _jax.checkpoint(lambda a, w: jnp.sin(jnp.sin(a) * w) * lax.psum(a, "x"))(a, w),
        "P('x'), P()", "P('x')",
    ),
}  # fmt: skip

_jax: Any = None  # the package that runs a case


def _gradient(f: Any, w: Any) -> Any:
    return _jax.grad(f)(w)


def _scanned(lax: Any, jnp: Any, a: Any, w: Any) -> Any:
    start = lax.pcast(jnp.zeros(a.shape[1:], a.dtype), "x", to="varying")
    return lax.scan(lambda c, r: (jnp.sin(c) * w[0] + r, c * w[1] + lax.psum(r, "x")), start, a)[1]


def _branches(lax: Any, a: Any, w: Any) -> Any:
    return lax.switch(lax.axis_index("x") % 2, [lambda: w.sum() * 2.0, lambda: (a * w).sum()])


def _with_rule(lax: Any) -> Any:
    @_jax.custom_vjp
    def f(a: Any, w: Any) -> Any:
        return a * w

    f.defvjp(lambda a, w: (a * w, (a, w)), lambda kept, ct: (ct * kept[1], lax.psum((ct * kept[0]).sum(0), "x") * 3))
    return f


def transformed(name: str, how: str, check: bool) -> Callable[[Any], Any]:
    body, ins, outs = BODIES[name]

    def case(jax: Any) -> Any:
        global _jax
        _jax = jax
        space = names(jax)
        f = space["sm"](
            lambda *args: body(jax.lax, jax.numpy, *args), eval(f"({ins})", space), eval(outs, space), check_vma=check
        )
        a = np.concatenate([X, X[:, ::-1]], 1) - 1
        w = np.linspace(0.5, 1.5, 4, dtype=np.float32)
        if name == "shared, not summed":
            w = w[None]
        args = (a, w) if ins.count("P(") > 1 else (a,)
        argnums = tuple(range(len(args)))
        loss = lambda *args: (jax.numpy.cos(f(*args)) * 0.5).sum()
        ones = tuple(np.ones_like(arg) * 0.3 for arg in args)
        jit = jax.jit if name in UNDER_JIT else lambda f: f
        if how == "value":
            return f(*args), jit(f)(*args)
        if how == "gradient":
            return jit(jax.grad(loss, argnums))(*args)
        if how == "tangent":
            return jax.jvp(jit(f), args, ones)[1]
        if how == "curvature":
            return jax.jvp(jax.grad(loss, argnums), args, ones)[1]
        both = tuple(np.stack([arg, 2 * arg], 1) for arg in args)
        if name in FORWARD:
            return jax.vmap(f, 1)(*both)
        return jit(jax.vmap(jax.grad(loss, argnums), 1, 1))(*both)

    return case


# Programs within programs.


def _own_vjp(jax: Any, sm: Any, P: Any, x: Any, w: Any) -> Any:
    @jax.custom_vjp
    def f(w: Any) -> Any:
        total = lambda a, w: jax.lax.psum((a * w).sum(), ("x", "y"))
        return sm(total, (P("x", "y"), P("y")), P())(x, w)

    f.defvjp(lambda w: (f(w), w), lambda w, ct: (ct * w * 3,))
    return jax.jit(jax.value_and_grad(f))(w)


def _within_another(jax: Any, sm: Any, P: Any, x: Any, w: Any) -> Any:
    def outer(a: Any) -> Any:
        inner = lambda b: b * jax.lax.psum(b, "y") + jax.lax.axis_index("y")
        parts = P(None, "y")
        return jax.shard_map(inner, in_specs=parts, out_specs=parts, axis_names={"y"})(a) + jax.lax.psum(a, "x")

    return jax.jit(sm(outer, P("x"), P("x"), axis_names={"x"}))(x)


def _closed_over(jax: Any, sm: Any, P: Any, x: Any, w: Any, **options: Any) -> Any:
    f = lambda w: sm(lambda a: jax.numpy.sin(a) * w * jax.lax.psum(a, "x"), P("x"), P("x"), **options)(x)
    return jax.grad(lambda w: (f(w) ** 2).sum())(w)


def _in_a_branch(jax: Any, sm: Any, P: Any, x: Any, w: Any) -> Any:
    f = lambda w: sm(lambda a, w: jax.lax.psum((a * w).sum(), "x"), (P("x"), P()), P())(x, w)
    return jax.jit(jax.grad(lambda w, c: jax.lax.cond(c, lambda: f(w), lambda: w.sum())))(w, True)


NESTED: dict[str, Callable[..., Any]] = {
    "within another": _within_another,
    "an own derivative around": _own_vjp,
    "closed over": _closed_over,
    "closed over, unchecked": lambda *args: _closed_over(*args, check_vma=False),
    "in a branch": _in_a_branch,
    "over some axes": lambda jax, sm, P, x, w: jax.grad(
        sm(
            lambda a, w: jax.lax.psum((jax.numpy.sin(a) * w).sum(), "x"), (P("x"), P()), P(), axis_names={"x"}
        ), (0, 1)
    )(x, w),
    "checkpoint around": lambda jax, sm, P, x, w: jax.grad(
        jax.checkpoint(lambda w: (sm(lambda a, w: jax.numpy.sin(a * w), (P("x"), P()), P("x"))(x, w) ** 2).sum())
    )(w),
    "jacobians": lambda jax, sm, P, x, w: [
        jac(sm(lambda a: jax.lax.psum(jax.numpy.sin(a), "x"), P("x"), P()))(x[:4, :2])
        for jac in (jax.jacrev, jax.jacfwd)
    ],
    "a Hessian": lambda jax, sm, P, x, w: jax.hessian(
        lambda w: sm(
            lambda a, w: jax.lax.pmean((jax.numpy.sin(a) * w**3).sum(), ("x", "y")), (P("x", "y"), P("y")), P()
        )(x, w)
    )(w),
    "one after another": lambda jax, sm, P, x, w: jax.jit(
        lambda w: sm(lambda a: a * 2, P("x"), P("x"))(sm(lambda a, w: a * w, (P("y"), P()), P("y"))(x, w) + 1).sum()
    )(w),
    "trees": lambda jax, sm, P, x, w: sm(
        lambda d, t: ({"s": d["a"] + t[0]}, jax.lax.psum(t[1], "x")), ({"a": P("x")}, (P("x"), P("x"))),
        ({"s": P("x")}, P()),
    )({"a": x}, (x, x)),
    "over both axes": lambda jax, sm, P, x, w: (
        sm(
            lambda a: jax.lax.psum_scatter(jax.lax.all_gather(a, ("x", "y"), tiled=True), ("x", "y"), tiled=True),
            P(("x", "y")), P(("x", "y")),
        )(x),
        sm(lambda a: jax.lax.all_to_all(a, ("x", "y"), 1, 0, tiled=True), P(("x", "y")), P(None, ("x", "y")))(
            np.arange(64.0, dtype=np.float32).reshape(8, 8)
        ),
    ),
    "gathered for all, backwards": lambda jax, sm, P, x, w: jax.grad(
        lambda a: (
            sm(lambda a: jax.lax.all_gather(jax.numpy.sin(a), "x", axis=1, to="invarying"), P("x"), P())(a) ** 2
        ).sum()
    )(x),
    "other dtypes": lambda jax, sm, P, x, w: (
        sm(lambda a: jax.lax.psum(a > 0, "x"), P("x"), P())(x),
        sm(lambda a: jax.lax.pmax(a.astype("int32"), ("x", "y")), P("x", "y"), P())(x * 10),
        jax.grad(lambda a: sm(lambda a: jax.lax.psum(abs(a * (1 + 2j)), "x"), P("x"), P())(a).sum())(x),
    ),
    "nothing given, nothing there": lambda jax, sm, P, x, w: (
        sm(lambda: jax.lax.axis_index("x")[None], (), P("x"))(), sm(lambda a: a * 2, P("x"), P("x"))(x[:0]),
    ),
}  # fmt: skip


def nested(name: str) -> Callable[[Any], Any]:
    x = np.linspace(-1.0, 1.0, 32, dtype=np.float32).reshape(8, 4)
    w = np.linspace(0.5, 1.5, 4, dtype=np.float32)
    return lambda jax: NESTED[name](jax, names(jax)["sm"], jax.sharding.PartitionSpec, x, w)


HOW = ("value", "gradient", "tangent", "batch")
FORWARD = {
    "pmax": ("value", "batch"),
    "while": ("value", "tangent", "batch"),
    "a rule of its own": ("value", "gradient"),
}
UNDER_JIT = {"psum", "shared and divided", "scan", "a loss and its gradient inside", "branches"}
CURVED = {"psum", "all_gather", "psum_scatter", "shared and divided", "scan", "branches"}
UNCHECKED = {"psum", "all_gather", "shared and divided", "shared, not summed", "scan", "psum_scatter"}
CASES: dict[str, Callable[[Any], Any]] = {
    (text if context is None else f"{context}: {text}"): evaluated(text, context)
    for context, texts in EXPRESSIONS.items()
    for text in texts.strip().splitlines()
}
PROGRAMS = {
    **{f"{name}, {how}": transformed(name, how, True) for name in BODIES for how in FORWARD.get(name, HOW)},
    **{f"{name}, curvature": transformed(name, "curvature", True) for name in sorted(CURVED)},
    **{name: nested(name) for name in NESTED},
    **{f"{name}, gradient, unchecked": transformed(name, "gradient", False) for name in sorted(UNCHECKED)},
}
