"""Axes of type Explicit: the types of arrays say how they are divided; as JAX has it, unless said otherwise."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import veery
import veery.export
import veery.numpy as jnp
from veery import lax
from veery._core.errors import ShardingTypeError
from veery.extend.core import Primitive
from veery.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec as P, auto_axes, explicit_axes, reshard


@pytest.fixture(scope="module")
def mesh():
    return veery.make_mesh((2, 2), ("X", "Y"), devices=veery.devices("cpu")[:4])


@pytest.fixture
def args(mesh):
    """Types of arguments by the names that the tables below use."""

    def struct(shape, *spec, dtype=jnp.float32):
        return veery.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, P(*spec)))

    return {
        "w": struct((2, 4)),
        "x": struct((2, 4), "X"),
        "y": struct((2, 4), None, "Y"),
        "z": struct((2, 4), "X", "Y"),
        "b": struct((8, 2), ("X", "Y")),
        "k": struct((4, 4), "X"),
        "v": struct((4,), "Y"),
        "i": struct((2,), "X", dtype=jnp.int32),
        "n": struct((2,), dtype=jnp.int32),
        "image": struct((2, 4, 4), "X"),
        "kernel": struct((4, 4, 3)),
        "keys": struct((4,), "X", dtype=veery.random.key(0).dtype),
    }


def typed(mesh, args, fun):
    names = fun.__code__.co_varnames[: fun.__code__.co_argcount]
    types = []

    def outer(*xs):
        out = fun(*xs)
        types.append(", ".join(str(veery.typeof(leaf)) for leaf in veery.tree.leaves(out)))
        return out

    with veery.set_mesh(mesh):
        veery.eval_shape(outer, *(args[name] for name in names))
    return types[0]


def conv(image, kernel, **kwargs):
    return lax.conv_general_dilated(
        image, kernel, (1,), "SAME", dimension_numbers=("NCH", "OIH", "NCH"), **kwargs
    )  # fmt: skip


@pytest.mark.parametrize(
    ("fun", "expected"),
    [
        # element by element
        (lambda x: jnp.sin(x) + 1, "float32[2@X,4]"),
        (lambda x, w: x + w, "float32[2@X,4]"),
        (lambda x, y: x * y, "float32[2@X,4@Y]"),
        (lambda z, v: z - v, "float32[2@X,4@Y]"),
        (lambda x: x.astype(int), "int32[2@X,4]"),
        (lambda x: jnp.where(x > 0, x, 0.0), "float32[2@X,4]"),
        (lambda x: jnp.clip(x, 0.0, 1.0), "float32[2@X,4]"),
        (lambda x: jnp.zeros_like(x), "float32[2@X,4]"),
        # other shapes
        (lambda z: z.T, "float32[4@Y,2@X]"),
        (lambda x: x[None], "float32[1,2@X,4]"),
        (lambda x: jnp.broadcast_to(x, (3, 2, 4)), "float32[3,2@X,4]"),
        (lambda x: x[:, :, None].squeeze(-1), "float32[2@X,4]"),
        (lambda x: x.reshape(8), "float32[8@X]"),
        (lambda z: z.reshape(2, 2, 2), "float32[2@X,2@Y,2]"),
        (lambda x: x.reshape(1, 2, 4), "float32[1,2@X,4]"),
        (lambda k: k.reshape(2, 2, 4), "float32[2@X,2,4]"),
        (lambda b: b.reshape(16), "float32[16@(X,Y)]"),
        (lambda b: b.reshape(2, 4, 2), "float32[2@X,4@Y,2]"),
        (lambda z: z.reshape(-1), "float32[8@(X,Y)]"),
        (lambda v: jnp.diag(v), "float32[4@Y,4]"),
        (lambda x: x[:, 1:3], "float32[2@X,2]"),
        (lambda x: x[:, 0], "float32[2@X]"),
        (lambda x: x[::-1], "float32[2@X,4]"),
        (lambda x: lax.dynamic_slice(x, (0, 1), (2, 2)), "float32[2@X,2]"),
        (lambda x: jnp.concatenate([x, x], 1), "float32[2@X,8]"),
        (lambda x: jnp.stack([x, x]), "float32[2,2@X,4]"),
        (lambda x: jnp.pad(x, ((0, 0), (1, 1))), "float32[2@X,6]"),
        (lambda x: jnp.pad(x, ((1, 1), (0, 0))), "float32[4@X,4]"),
        (lambda x: jnp.split(x, 2, 1), "float32[2@X,2], float32[2@X,2]"),
        (lambda x: jnp.repeat(x, 2, 1), "float32[2@X,8]"),
        # reductions, and what needs a whole dimension
        (lambda z: z.sum(1), "float32[2@X]"),
        (lambda z: z.mean(0), "float32[4@Y]"),
        (lambda z: z.max(), "float32[]"),
        (lambda z: z.argmax(0), "int32[4@Y]"),
        (lambda z: z.argmax(), "int32[]"),
        (lambda x: x.var(1), "float32[2@X]"),
        (lambda x: x.cumsum(1), "float32[2@X,4]"),
        (lambda x: jnp.sort(x, 1), "float32[2@X,4]"),
        (lambda x: lax.top_k(x, 2), "float32[2@X,2], int32[2@X,2]"),
        (lambda z: jnp.fft.fft(z), "complex64[2@X,4@Y]"),
        (lambda image: jnp.linalg.cholesky(image), "float32[2@X,4,4]"),
        (lambda image: lax.linalg.hessenberg(image), "float32[2@X,4,4], float32[2@X,3]"),
        (lambda x: lax.linalg.lu_pivots_to_permutation(x.astype(int), 4), "int32[2@X,4]"),
        (lambda x: veery.pure_callback(np.sin, veery.ShapeDtypeStruct((2, 4), jnp.float32), x), "float32[2,4]"),
        (lambda x: veery.new_ref(x)[...], "float32[2@X,4]"),
        (lambda x: veery.ad_checkpoint.checkpoint_name(x, "kept"), "float32[2@X,4]"),
        (lambda z: veery.nn.logsumexp(z, axis=1), "float32[2@X]"),
        (lambda y: veery.nn.softmax(y), "float32[2,4@Y]"),
        # products
        (lambda x, k: x @ k, "float32[2@X,4]"),
        (lambda x, w: jnp.einsum("ij,kj->ik", x, w), "float32[2@X,2]"),
        (lambda x, v: jnp.outer(x[:, 0], v), "float32[2@X,4@Y]"),
        (conv, "float32[2@X,4,4]"),
        # indexing
        (lambda w, n: w[n], "float32[2,4]"),
        (lambda y, n: y[n], "float32[2,4@Y]"),
        (lambda k, n: jnp.take_along_axis(k, n[:, None].repeat(2, 0), 1), "float32[4@X,1]"),
        (lambda x: x.at[:, 0].set(1.0), "float32[2@X,4]"),
        (lambda x, n: x.at[:, n].add(1.0), "float32[2@X,4]"),
        (lambda y, n: y.at[n].set(0.0), "float32[2,4@Y]"),
        (lambda z: z.at[...].set(0.0), "float32[2@X,4@Y]"),
        # control flow and transformations
        (lambda x: lax.cond(True, lambda a: a, lambda a: a + 1, x), "float32[2@X,4]"),
        (lambda v, y: lax.scan(lambda c, a: (c + a, c), v, y), "float32[4@Y], float32[2,4@Y]"),
        (lambda x: lax.while_loop(lambda c: c.sum() < 0, lambda c: c * 2, x), "float32[2@X,4]"),
        (lambda x: veery.jit(lambda a: a * 2)(x), "float32[2@X,4]"),
        (lambda z: veery.vmap(lambda a: a.sum())(z), "float32[2@X]"),
        (lambda y: veery.vmap(veery.jit(lambda a: a * 2), in_axes=1, out_axes=1)(y), "float32[2,4@Y]"),
        (lambda x, w: veery.vmap(lambda a: a @ w.T)(x), "float32[2@X,2]"),
        (lambda x: veery.vmap(lambda a: jnp.ones(3), out_axes=1)(x), "float32[3,2@X]"),
        (lambda x: veery.vmap(lambda a: a.at[0].set(1.0))(x), "float32[2@X,4]"),
        (lambda x: veery.vmap(lambda a: reshard(a, P("Y")))(x), "float32[2@X,4@Y]"),
        (lambda x: veery.vmap(auto_axes(lambda a: a * 2, out_sharding=P("Y")))(x), "float32[2@X,4@Y]"),
        (lambda x: veery.vmap(lambda a: jnp.zeros(5).at[1:3].add(a[:2]))(x), "float32[2@X,5]"),
        (lambda x: veery.vmap(lambda a: jnp.zeros(5).at[a.astype(int)].add(a))(x), "float32[2@X,5]"),
        (lambda x: veery.vmap(lambda a: lax.scan(lambda c, e: (c + e, c), 0.0, a))(x), "float32[2@X], ~float32[2@X,4]"),
        (lambda x: veery.vmap(lambda a: lax.fori_loop(0, 3, lambda i, c: c + a.sum(), 0.0))(x), "float32[2@X]"),
        (
            lambda x: veery.vmap(lambda a: lax.cond(a.sum() > 0, lambda: jnp.zeros(4), lambda: a))(x),
            "float32[2@X,4]",
        ),
        (lambda x: veery.grad(lambda a: jnp.sum(a[None] * 2))(x), "float32[2@X,4]"),
        (
            lambda x, k: veery.grad(lambda a, b: jnp.sum(jnp.sin(a) @ b), (0, 1))(x, k),
            "float32[2@X,4], float32[4@X,4]",
        ),
        (lambda x: veery.grad(lambda a: veery.checkpoint(lambda b: jnp.sin(b).sum())(a))(x), "float32[2@X,4]"),
        (lambda x: veery.grad(lambda a: jnp.sum(veery.nn.silu(a)[:, 1:]))(x), "float32[2@X,4]"),
        (
            lambda x: veery.grad(lambda a: lax.reduce_window(a, -np.inf, lax.max, (1, 2), (1, 2), "VALID").sum())(x),
            "float32[2@X,4]",
        ),
        (lambda v: (veery.jacfwd(jnp.sin)(v), veery.jacrev(jnp.sin)(v)), "float32[4@Y,4], float32[4,4@Y]"),
        (lambda v: veery.jvp(lambda a: a * a, (v,), (v,)), "float32[4@Y], float32[4@Y]"),
        # random numbers
        (lambda keys: veery.vmap(lambda key: veery.random.normal(key, (3,)))(keys), "float32[4@X,3]"),
        # as is said
        (lambda x: reshard(x, P(None, "Y")), "float32[2,4@Y]"),
        (lambda z: jnp.matmul(z, z.T, out_sharding=P(None, None)), "float32[2,2]"),
        (lambda z: jnp.einsum("ij,kj->ik", z, z, out_sharding=P("X", None)), "float32[2@X,2]"),
        (lambda z: lax.dot_general(z, z, (((1,), (1,)), ((), ())), out_sharding=P("Y")), "float32[2@Y,2]"),
        (lambda x: jnp.reshape(x, (4, 2), out_sharding=P("Y")), "float32[4@Y,2]"),
        (lambda k, n: k.at[n].get(out_sharding=P()), "float32[2,4]"),
        (lambda w, i: w.at[i].get(out_sharding=P("X")), "float32[2@X,4]"),
        (lambda x: x.at[0].set(1.0, out_sharding=P("X")), "float32[2@X,4]"),
        (lambda image, kernel: conv(image, kernel, out_sharding=P("X", "Y")), "float32[2@X,4@Y,4]"),
        (lambda v: veery.random.gamma(veery.random.key(0), v), "float32[4]"),
        (lambda w: w + veery.random.normal(veery.random.key(0), (2, 4), out_sharding=P("X")), "float32[2@X,4]"),
        (lambda w: veery.nn.initializers.ones(None, (2, 4), w.dtype, P("X")), "float32[2@X,4]"),
        (lambda x: auto_axes(lambda a: a @ a.T, out_sharding=P("X"))(x), "float32[2@X,2]"),
        (
            lambda z: veery.grad(lambda a: jnp.matmul(a, a.T, out_sharding=P("X")).sum())(z),
            "float32[2@X,4@Y]",
        ),
        (lambda x: veery.shard_map(lambda a: a * 2, in_specs=P("X"), out_specs=P("X"))(x), "float32[2@X,4]"),
    ],
)
def test_types_of_results(mesh, args, fun, expected):
    assert typed(mesh, args, fun) == expected


_unknown_p = Primitive("unknown")
_unknown_p.def_abstract_eval(lambda x: x)

_AMBIGUOUS = "Contracting dimensions are sharded and it is ambiguous how the output should be sharded"


@pytest.mark.parametrize(
    ("fun", "error", "message"),
    [
        (lambda z: z @ z.T, ShardingTypeError, rf"{_AMBIGUOUS}.*\('Y',\) and rhs_contracting_spec=\('Y',\)"),
        (lambda z: veery.jit(lambda a: a @ a.T)(z), ShardingTypeError, _AMBIGUOUS),
        (lambda y, k: y @ k, ShardingTypeError, r"consistent sharding, got \('Y',\) and \('X',\)"),
        (lambda x, i: x.T + i[:, None][:1], ShardingTypeError, "illegally sharded|out sharding could not"),
        (lambda z, k: z + k.T[:2], ShardingTypeError, r"add got incompatible shardings for broadcasting: \("),
        (lambda x: x.reshape(4, 2), ShardingTypeError, "reshape is not supported.* via the `out_sharding`"),
        (lambda y: y.reshape(8), ShardingTypeError, r"reshape is not supported.*float32\[2,4@Y\], new sizes: \(8,\)"),
        (lambda k: k + k.T, ShardingTypeError, r"add operation.*illegally sharded result: f32\[4@X,4@X\]"),
        (lambda z: z.cumsum(0), ShardingTypeError, "unsharded over the axis being reduced"),
        (lambda z: jnp.sort(z, 0), ShardingTypeError, "unsharded over the sorting dimension"),
        (lambda x: jnp.linalg.svd(x), ShardingTypeError, "must be unsharded on non-batch dimensions"),
        (lambda k, n: k[n], ShardingTypeError, r"Use `.at\[...\].get\(out_sharding=\)`.*\[4@X,4\]"),
        (lambda w, i: w[i], ShardingTypeError, r"Use `.at\[...\].get\(out_sharding=\)`"),
        (lambda x, n: x.at[n].add(1.0), ShardingTypeError, r"Use `.at\[...\].set/add/mul/...\(out_sharding=\)`"),
        (lambda x: lax.dynamic_slice(x, (0, 0), (1, 4)), ShardingTypeError, "illegally sharded result"),
        (lambda x, w: lax.dynamic_update_slice(w, x[:, :2], (0, 1)), ShardingTypeError, "must be equal to update"),
        (lambda x: lax.dynamic_update_slice(x, jnp.ones((1, 4)), (0, 0)), ShardingTypeError, "must be equal to update"),
        (lambda x: lax.scan(lambda c, a: (c, a), 0.0, x), ValueError, r"0th dimension of all xs should be replicated"),
        (lambda y: lax.scan(lambda c, a: (c + a, c), jnp.zeros(4), y), TypeError, r"equal types.*\[4\].*\[4@Y\]"),
        (lambda x, w: lax.cond(True, lambda: x, lambda: w), TypeError, r"float32\[2@X,4\].*the shardings do not match"),
        (lambda x, w: veery.vmap(lambda a, b: a + b)(x, w), ValueError, "inconsistent axis specs: X vs None"),
        (lambda x: lax.with_sharding_constraint(x, P("Y")), AssertionError, "did not match the sharding provided"),
        (lambda x: lax.with_sharding_constraint(x, 3), TypeError, "leaf specifications are expected .*, but got 3"),
        (
            lambda x: veery.shard_map(lambda a: a, in_specs=P("Y"), out_specs=P("Y"))(x),
            ValueError,
            r"in_specs passed to shard_map: P\('Y', None\) does not match the specs of the input: P\('X', None\)",
        ),
        (lambda x: _unknown_p.bind(x), NotImplementedError, "no rule says.*jax.sharding.auto_axes"),
    ],
)
def test_what_is_refused(mesh, args, fun, error, message):
    with pytest.raises(error, match="(?s)" + message):
        typed(mesh, args, fun)


def test_axes_of_another_mesh_are_refused(mesh, args):
    other = veery.make_mesh((4,), ("Z",), devices=veery.devices("cpu")[:4])
    with pytest.raises(ValueError, match="For primitive sin, context mesh .*'Z': 4.* should match the aval mesh"):
        typed(other, args, lambda x: jnp.sin(x))


def test_types_print_and_pickle(mesh, args):
    with veery.set_mesh(mesh):
        text = str(veery.make_jaxpr(lambda a: jnp.sin(a))(args["z"]))
    assert "a:f32[2@X,4@Y]" in text and "b:f32[2@X,4@Y] = sin a" in text
    aval = veery.typeof(args["z"])
    assert pickle.loads(pickle.dumps(aval)) is aval
    assert aval.update(shape=(4, 2)).divided is None
    assert veery.eval_shape(lambda a: a.T, args["x"]).sharding.spec == P(None, "X")


@pytest.mark.compiler
def test_arrays_lie_as_their_types_say(mesh):
    numbers = np.arange(8, dtype=np.float32).reshape(2, 4)
    with veery.set_mesh(mesh):
        assert jnp.asarray(numbers).sharding == NamedSharding(mesh, P(None, None))
        assert (jnp.ones(3) + 1).sharding.device_set == set(mesh.devices.flat)
        x = reshard(numbers, P("X"))
        assert str(veery.typeof(x)) == "float32[2@X,4]"

        @veery.jit
        def layer(x, w):
            return jnp.matmul(jnp.sin(x), w, out_sharding=P("X", "Y"))

        out = layer(x, jnp.ones((4, 2)))
        assert out.sharding == NamedSharding(mesh, P("X", "Y")) and str(veery.typeof(out)) == "float32[2@X,2@Y]"
        assert [shard.data.shape for shard in out.addressable_shards] == [(1, 1)] * 4
        np.testing.assert_allclose(out, np.sin(numbers) @ np.ones((4, 2)), rtol=1e-6)
        grads = veery.jit(veery.grad(lambda a: (layer(a, a.T) ** 2).sum()))(reshard(numbers / 8, P("X", "Y")))
        assert grads.sharding.spec == P("X", "Y")
        whole = auto_axes(lambda a: a @ a.T, out_sharding=P())(x)
        np.testing.assert_allclose(whole, numbers @ numbers.T)
        assert explicit_axes(lambda a: a + 1, in_sharding=P("X"))(whole).sharding.shard_shape((2, 2)) == (1, 2)
    with veery.set_mesh(mesh.update(axis_types=(AxisType.Auto,) * 2)):
        plain = jnp.asarray(numbers / 8)
        expected = veery.grad(lambda a: ((jnp.sin(a) @ a.T) ** 2).sum())(plain)
    np.testing.assert_allclose(grads, expected, rtol=1e-5)
    assert (x + 1).sharding.spec == P("X", None)  # outside of the context too
    alike = veery.grad(lambda a: (jnp.sin(a) ** 2).sum())(x)  # where JAX asks for a context
    assert alike.sharding == x.sharding
    np.testing.assert_allclose(alike, np.sin(2 * numbers), rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="nothing tells which devices AbstractMesh"):
        reshard(numbers, NamedSharding(mesh.abstract_mesh, P("X")))
    assert str(veery.typeof(pickle.loads(pickle.dumps(x)))) == "float32[2,4]"
    exported = veery.export.export(veery.jit(jnp.sin))(x)
    np.testing.assert_allclose(exported.call(x), np.sin(numbers), rtol=1e-6)
    alone = veery.device_put(x, veery.devices("cpu")[0])
    assert str(veery.typeof(alone)) == "float32[2,4]"


@pytest.mark.compiler
def test_a_step_on_data_that_are_divided(mesh):
    """The gradient by what is whole sums over what is divided: in the program for one device that is made of it too."""

    def loss(weights, x):
        return jnp.mean(jnp.tanh(x @ weights[0]) @ weights[1])

    rng = np.random.default_rng(0)
    weights = [rng.normal(size=shape).astype(np.float32) for shape in ((3, 4), (4, 2))]
    x = rng.normal(size=(8, 3)).astype(np.float32)
    expected = veery.grad(loss)(weights, x)
    with veery.set_mesh(mesh):
        placed = reshard(x, P(("X", "Y")))
        for step in (veery.grad(loss), veery.jit(veery.grad(loss)), veery.jit(veery.grad(veery.checkpoint(loss)))):
            for got, right in zip(step(weights, placed), expected, strict=True):
                assert got.sharding.is_fully_replicated
                np.testing.assert_allclose(got, right, rtol=1e-5)


@pytest.mark.compiler
def test_axes_of_another_type_or_form_within(mesh):
    auto = mesh.update(axis_types=(AxisType.Auto,) * 2)
    numbers, types = np.arange(8, dtype=np.float32).reshape(2, 4), []

    def doubled(x):
        types.append(str(veery.typeof(x)))
        return 2 * x

    with veery.set_mesh(auto):
        explicit = explicit_axes(doubled, in_sharding=P("X", "Y"))
        for step in (lambda x: explicit(jnp.sin(x)) + 1, veery.jit(lambda x: explicit(jnp.sin(x)) + 1)):
            out = step(numbers)
            assert str(veery.typeof(out)) == "float32[2,4]"
            np.testing.assert_allclose(out, 2 * np.sin(numbers) + 1, rtol=1e-6)
        assert types == ["float32[2@X,4@Y]"] * 2
        assert explicit(numbers).sharding.spec == P("X", "Y")
        # where all axes are Auto anyway, nothing is laid out by their types
        np.testing.assert_array_equal(auto_axes(doubled)(numbers, out_sharding=P("X")), 2 * numbers)
    other = AbstractMesh((4,), ("A",), (AxisType.Explicit,))

    @veery.jit
    def elsewhere(x):
        with veery.sharding.use_abstract_mesh(other):
            return reshard(x, P(None, "A")) * 2

    with veery.set_mesh(mesh):
        out = elsewhere(numbers)
        laid_out = reshard(numbers, P("X", "Y"))
        again = elsewhere(laid_out)
        with veery.sharding.use_abstract_mesh(other):
            eager = reshard(laid_out, P(None, "A"))
            with pytest.raises(AssertionError, match="did not match the sharding provided"):
                lax.with_sharding_constraint(jnp.ones((2, 4)), P(None, "A"))
        with veery.sharding.use_abstract_mesh(AbstractMesh((2,), ("A",), (AxisType.Explicit,))):
            with pytest.raises(ValueError, match="nothing tells which devices"):
                reshard(laid_out, P(None, "A"))
    assert str(veery.typeof(out)) == "float32[2,4@A]" and out.sharding.shard_shape((2, 4)) == (2, 1)
    np.testing.assert_array_equal(out, 2 * numbers)
    np.testing.assert_array_equal(again, 2 * numbers)
    np.testing.assert_array_equal(eager, numbers)
    assert again.sharding == out.sharding == eager.sharding
    assert list(again.sharding.mesh.devices.flat) == list(mesh.devices.flat)


def test_types_of_arrays_outside_of_meshes_lay_nothing_out(mesh):
    x = jnp.arange(8.0).reshape(2, 4)
    outside = veery.typeof(x).sharding  # as Flax passes it on
    for make in (
        lambda place: veery.random.bernoulli(veery.random.key(0), 0.5, (2, 4), out_sharding=place),
        lambda place: jnp.einsum("ij,jk->ik", x, jnp.eye(4), out_sharding=place),
        lambda place: lax.reshape(x, (4, 2), out_sharding=place),
        lambda place: x.at[np.array([1, 0])].get(out_sharding=place),
    ):
        given = make(outside)
        np.testing.assert_array_equal(given, make(None))
        assert not given.committed and veery.typeof(given).sharding == outside
        assert veery.eval_shape(lambda: make(outside)).sharding is None  # noqa: B023
    for call in (lambda f, x: f(x), veery.eval_shape):
        with pytest.raises(ValueError, match="a sharding over a mesh with axes is expected"):
            call(lambda x: reshard(x, outside), x)
    divided = veery.device_put(x, NamedSharding(mesh, P("X")))
    with veery.set_mesh(mesh), pytest.raises(ValueError, match="reshape: a sharding over a mesh with axes is expected"):
        lax.reshape(divided, (2, 2, 2), out_sharding=outside)
