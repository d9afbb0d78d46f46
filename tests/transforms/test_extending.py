"""What libraries build on: primitives of their own, jaxprs as data, derivative checks."""

from __future__ import annotations

import numpy as np
import pytest

import veery
from veery import lax
from veery.extend import core
from veery.extend.core import primitives
from veery.interpreters import ad, batching, mlir, partial_eval, xla


def close(actual, expected, tolerance=1e-6):
    np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), rtol=tolerance, atol=tolerance)


def multiply_add():
    """x y + z as a primitive with all its rules, made as a library would."""
    p = core.Primitive("multiply_add")
    p.def_impl(lambda x, y, z, scale: np.asarray(x) * np.asarray(y) * scale + np.asarray(z))

    @p.def_abstract_eval
    def _(x, y, z, scale):
        assert x.shape == y.shape == z.shape
        return veery.core.ShapedArray(x.shape, x.dtype)

    def jvp(primals, tangents, *, scale):
        assert type(primals) is type(tangents) is tuple
        (x, y, z), (dx, dy, dz) = primals, tangents
        out = p.bind(x, y, z, scale=scale)
        dx, dy, dz = map(ad.instantiate_zeros, (dx, dy, dz))
        return out, p.bind(dx, y, p.bind(x, dy, dz, scale=scale), scale=scale)

    def transpose(ct, x, y, z, *, scale):
        ct_z = ct if ad.is_undefined_primal(z) else None
        if ad.is_undefined_primal(x):
            return [lax.mul(ct, lax.mul(y, scale)), None, ct_z]
        return [None, lax.mul(ct, lax.mul(x, scale)) if ad.is_undefined_primal(y) else None, ct_z]

    def lowering(ctx, x, y, z, *, scale):
        assert ctx.avals_out[0].shape == ctx.avals_in[0].shape
        hlo = mlir.hlo
        factor = hlo.full(scale, ctx.avals_in[0].shape, ctx.avals_in[0].dtype)
        return [hlo.add(hlo.multiply(hlo.multiply(x, y), factor), z)]

    ad.primitive_jvps[p] = jvp
    ad.primitive_transposes[p] = transpose
    batching.defbroadcasting(p)
    mlir.register_lowering(p, lowering)
    return p


@pytest.mark.compiler
def test_a_primitive_with_all_its_rules():
    p = multiply_add()
    f = lambda x, y, z: p.bind(x, y, z, scale=2.0)
    x, y, z = (np.float32(v) for v in (2.0, 3.0, 4.0))
    assert f(x, y, z) == 16
    out, tangent = veery.jvp(f, (x, y, z), (x, y, z))
    assert (out, tangent) == (16, 2 * (2 * 3 + 2 * 3) + 4)
    assert "multiply_add[scale=2.0]" in str(veery.make_jaxpr(f)(x, y, z))
    close(veery.vmap(f, (0, None, 0))(np.ones(3, np.float32), y, np.ones(3, np.float32)), [7, 7, 7])
    close(veery.jit(f)(x, y, z), 16.0)
    close(veery.jit(veery.grad(f, (0, 1, 2)))(x, y, z), (6.0, 4.0, 1.0))
    close(veery.jit(veery.vmap(veery.grad(f), (0, None, None)))(np.ones(3, np.float32), y, z), [6.0] * 3)
    text = veery.jit(f).lower(x, y, z).as_text()
    assert text.count("stablehlo.multiply") == 2
    assert p in ad.primitive_jvps and p in set(batching.primitive_batchers)
    with pytest.raises(KeyError):
        batching.fancy_primitive_batchers[p]
    del ad.primitive_jvps[p]
    with pytest.raises(NotImplementedError, match="Differentiation rule for 'multiply_add' not implemented"):
        veery.jvp(f, (x, y, z), (x, y, z))


def unary(name):
    p = core.Primitive(name)
    p.def_abstract_eval(lambda x: x)
    return p


def test_batching_rules_of_the_older_form():
    p = unary("scaled_by_axis")

    def rule(axis_size, axis_name, trace_type, operands, dims):
        assert (axis_name, trace_type, list(dims)) == ("i", None, [1])
        return operands[0] * axis_size, dims[0]

    batching.axis_primitive_batchers[p] = rule
    out = veery.vmap(p.bind, in_axes=1, out_axes=1, axis_name="i")(np.ones((2, 3), np.float32))
    close(out, np.full((2, 3), 3.0))


@pytest.mark.compiler
def test_shorthands_for_rules():
    x = np.float32(0.5)
    twice = unary("twice")
    twice.def_impl(lambda x: np.asarray(x) * 2)
    ad.deflinear2(twice, lambda ct, x: [twice.bind(ct)])
    batching.defvectorized(twice)

    def with_a_reference(x):
        ref = veery.new_ref(x)
        ref[...] += x
        return ref[...]

    mlir.register_lowering(twice, mlir.lower_fun(with_a_reference, multiple_results=False))
    assert veery.grad(twice.bind)(x) == 2
    close(veery.jit(veery.vmap(veery.grad(lambda x: twice.bind(twice.bind(x)))))(np.ones(2, np.float32)), [4.0, 4.0])

    cube = unary("cube")
    cube.def_impl(lambda x: np.asarray(x) ** 3)
    ad.defjvp(cube, lambda t, x: lax.mul(t, lax.mul(lax.mul(x, x), np.float32(3))))
    close(veery.grad(cube.bind)(x), 0.75)
    ad.defjvp2(cube, lambda t, out, x: lax.mul(t, lax.div(lax.mul(out, np.float32(3)), x)))
    close(veery.grad(cube.bind)(x), 0.75)

    product = core.Primitive("product")
    product.def_impl(lambda x, y: np.asarray(x) * np.asarray(y))
    product.def_abstract_eval(lambda x, y: x)
    ad.defbilinear(product, lambda ct, x, y: product.bind(ct, y), lambda ct, x, y: product.bind(x, ct))
    close(veery.grad(lambda x: product.bind(x, product.bind(x, np.float32(3))))(x), 3.0)

    total = core.Primitive("total")
    total.def_impl(lambda x, axes: np.sum(np.asarray(x), axes))
    total.def_abstract_eval(lambda x, axes: x.update(shape=tuple(n for i, n in enumerate(x.shape) if i not in axes)))
    batching.defreducer(total)
    out = veery.vmap(lambda x: total.bind(x, axes=(1,)), in_axes=1, out_axes=0)(np.ones((2, 3, 4)))
    close(out, np.full((3, 2), 4.0))

    ad.deflinear(unary("linear"), lambda ct: [ct])
    assert xla.apply_primitive(twice, x) == 1.0


def test_symbolic_zeros_are_pytrees_without_leaves():
    zero = ad.Zero(veery.core.ShapedArray((3,), np.float32))
    out, found = veery.vmap(lambda x, z: (x, z))(np.ones(2, np.float32), zero)
    assert out.shape == (2,) and type(found) is ad.Zero and found.aval.shape == (3,)
    assert veery.tree.leaves(ad.UndefinedPrimal(zero.aval)) == []


def test_python_numbers_pass_through_jvp():
    out, tangent = veery.jvp(lambda x: (x, 1.0), (2.0,), (3.0,))
    assert out == (2.0, 1.0) and type(tangent[0]) is float and isinstance(tangent[1], veery.Array)


def by_function(function, *platforms):
    """x squared as a primitive that is lowered by a function."""
    p = unary("by_function")
    for platform in (*platforms, None):
        mlir.register_lowering(p, mlir.lower_fun(function, multiple_results=False), platform)
    return p


@pytest.mark.compiler
@pytest.mark.parametrize("platforms", [(), ("cpu",)])
def test_programs_have_the_functions_of_primitives_in_them(platforms):
    """Its loops and branches are known when the program is called, and what a callback raises, a call raises."""

    def refuse(x):
        raise ValueError("refused")

    def squared(x):
        wrong = lax.lt(x[0, 0], np.float32(0))
        return lax.cond(wrong, lambda x: veery.pure_callback(refuse, x, x), lambda x: lax.mul(x, x), x)

    p = by_function(squared, *platforms)
    f = veery.jit(lambda x: lax.scan(lambda c, _: (p.bind(c), None), x, None, 2)[0])
    x = np.full((2, 2), 2, np.float32)
    close(f(x), x**4)
    assert "pure_callback" not in str(veery.make_jaxpr(f)(x))
    if not platforms:
        with pytest.raises(ValueError, match="refused"):
            f(-x)


def test_what_a_primitive_lacks_is_named():
    p = unary("bare")
    with pytest.raises(NotImplementedError, match="Batching rule for 'bare' not implemented"):
        veery.vmap(p.bind)(np.ones(2))
    q = core.Primitive("nothing")
    alone, several = core.Primitive("alone"), core.Primitive("several")
    several.multiple_results = True
    alone.def_abstract_eval(lambda aval: [aval])
    several.def_abstract_eval(lambda aval: aval)
    for odd in (alone, several):
        with pytest.raises(ValueError, match=rf"{odd}.abstract_eval\(\) method should return a tuple or a list iff"):
            veery.make_jaxpr(odd.bind)(1.0)
    with pytest.raises(NotImplementedError, match="Abstract evaluation for 'nothing' not implemented"):
        veery.make_jaxpr(q.bind)(1.0)
    ad.deflinear2(p, None)
    with pytest.raises(NotImplementedError, match="Transpose rule .* for 'bare' not implemented"):
        veery.linear_transpose(p.bind, 1.0)(1.0)
    with pytest.raises(NotImplementedError, match="Transpose rule"):
        ad.get_primitive_transpose(p)


def test_jaxprs_as_data(in_numpy):
    closed = veery.make_jaxpr(lambda x: lax.mul(lax.sin(x), 2.0))(1.0)
    assert isinstance(closed, core.ClosedJaxpr) and isinstance(closed.jaxpr.eqns[0], core.JaxprEqn)
    assert closed.eqns[0].primitive is core.primitives.sin_p
    assert isinstance(closed.eqns[1].invars[1], core.Literal)
    close(veery.core.eval_jaxpr(closed.jaxpr, closed.consts, 0.5)[0], 2 * np.sin(0.5))
    (out,) = core.jaxpr_as_fun(closed)(0.5)
    close(out, 2 * np.sin(0.5))
    core.check_jaxpr(closed.jaxpr)
    jaxpr, avals, consts = partial_eval.trace_to_jaxpr_dynamic(
        lambda x, y: [lax.sin(x), lax.cos(y)], [veery.core.get_aval(1.0)] * 2
    )
    assert not consts and len(avals) == 2
    smaller, used = partial_eval.dce_jaxpr(jaxpr, [False, True])
    assert used == [False, True] and [str(e.primitive) for e in smaller.eqns] == ["cos"]
    nested = veery.make_jaxpr(lambda x: lax.cond(True, lax.sin, lax.cos, x))(1.0)
    assert len(list(core.subjaxprs(nested.jaxpr))) == 2


def interpret_inverse(closed, *outs):
    """The inverse of a chain of unary operations: an interpreter as users write them."""
    inverses = {core.primitives.exp_p: lax.log, core.primitives.tanh_p: lax.atanh, core.primitives.neg_p: lax.neg}
    env = dict(zip(closed.jaxpr.outvars, outs))
    for eqn in reversed(closed.eqns):
        env[eqn.invars[0]] = inverses[eqn.primitive](env[eqn.outvars[0]])
    return [env[v] for v in closed.jaxpr.invars]


def test_interpreters_of_jaxprs(in_numpy):
    f = lambda x: lax.exp(lax.neg(lax.tanh(x)))
    closed = veery.make_jaxpr(f)(0.3)
    close(interpret_inverse(closed, f(0.3))[0], 0.3)
    close(veery.grad(lambda y: interpret_inverse(closed, y)[0])(f(0.3)), 1 / veery.grad(f)(0.3))


def test_state_of_tracing(in_numpy):
    states = [core.get_opaque_trace_state()]
    assert states[0] == core.get_opaque_trace_state()

    def f(x):
        states.append(core.get_opaque_trace_state())
        assert core.unsafe_am_i_under_a_jit_DO_NOT_USE()
        return x

    veery.jit(f)(1.0)
    assert states[0] != states[1]
    assert not core.unsafe_am_i_under_a_jit_DO_NOT_USE()
    names = []
    veery.vmap(lambda x: names.append(core.unsafe_get_axis_names_DO_NOT_USE()) or x, axis_name="rows")(np.ones(2))
    assert names == [["rows"]] and not core.nonempty_axis_env_DO_NOT_USE()


def test_what_the_core_had_warns_of_its_new_place():
    with pytest.warns(DeprecationWarning, match="veery.extend.core.valid_jaxtype") as caught:
        assert veery.core.valid_jaxtype is core.valid_jaxtype
    assert caught[0].filename == __file__


def test_evaluation_while_tracing(in_numpy):
    def f(x):
        with veery.ensure_compile_time_eval():
            table = lax.mul(np.arange(3.0), 2.0)
            assert float(lax.reduce_sum(table, (0,))) == 6.0
        return lax.mul(x, table)

    text = str(veery.make_jaxpr(f)(np.ones(3)))
    assert text.count("mul") == 1 and "reduce_sum" not in text
    close(veery.vmap(veery.grad(lambda x: lax.reduce_sum(f(x), (0,))))(np.ones((2, 3))), [[0, 2, 4]] * 2)


@pytest.mark.compiler
def test_names_reach_the_compiler():
    f = veery.named_call(lambda x: lax.add(x, np.float32(1)), name="increment")
    assert veery.jit(f)(np.float32(1)) == 2
    assert "increment/add" in veery.jit(f).lower(np.float32(1)).as_text(debug_info=True)


def test_gradient_checks(in_numpy):
    check = veery.test_util.check_grads
    tree = ({"a": np.array([0.5, 0.7]), "n": np.int64(2)}, 0.3)
    f = lambda p, y: {"out": lax.mul(lax.sin(p["a"]), y)}
    check(f, tree, order=3)
    check(lambda z: lax.mul(z, lax.sin(z)), (np.complex128(0.3 + 0.2j),), order=2)
    check(lambda x: lax.mul(x, x), (np.float32(0.5),), order=1, modes="fwd")
    check(lambda x: lax.mul(x, x), (np.float32(0.5),), order=1, rtol={np.float32: 1e-2}, atol={np.dtype("float64"): 0})
    with pytest.raises(AssertionError, match="JVP of f"):
        check(lambda x: lax.mul(x, x), (np.float32(0.5),), 1, rtol={np.float32: 1e-12}, atol={np.float32: 0})
    wrong = veery.custom_jvp(lambda x: lax.sin(x))
    wrong.defjvps(lambda t, out, x: lax.mul(t, 2.0))
    for mode, label in (("fwd", "JVP"), ("rev", "VJP")):
        with pytest.raises(AssertionError, match=f"{label} of f"):
            check(wrong, (0.5,), order=1, modes=[mode])
    late = veery.custom_jvp(lambda x: lax.sin(x))
    late.defjvps(lambda t, out, x: lax.mul(t, wrong(lax.add(x, np.pi / 2))))
    check(late, (0.5,), order=1)
    with pytest.raises(AssertionError, match="JVP of f, VJP of f|VJP of f, JVP of f|JVP of f, JVP of f"):
        check(late, (0.5,), order=2)
    veery.test_util.check_vjp(lax.sin, lambda x: veery.vjp(lax.sin, x), (0.5,))


def test_gradients_are_checked_along_the_directions_of_jax(in_numpy):
    seen = []
    f = lambda x: seen.append(x) or lax.mul(x, x)
    veery.test_util.check_grads(f, (np.zeros(3),), order=1, modes="rev", eps=2.0)
    assert np.allclose(seen[-2:], np.outer((1, -1), (1.76405235, 0.40015721, 0.97873798)))  # of JAX 0.10.2


def test_chains_of_transformations():
    from veery.extend import linear_util as lu

    @lu.transformation_with_aux2
    def noting(f, store, note, x):
        store.store((note, x))
        return f(x)

    @lu.transformation
    def shifted(by, x):
        y = yield (x + by,), {}
        yield 2 * y

    def core(x):
        return abs(x)

    calls = []

    @lu.cache
    def remembered(fun, x):
        calls.append(x)
        return fun.call_wrapped(x)

    for _ in range(2):  # a chain that is built again is known
        fun, aux = noting(shifted(lu.wrap_init(core), -3), "note")
        with pytest.raises(lu.StoreException, match="Store empty"):
            aux()
        assert remembered(fun, 1) == 4 and aux() == ("note", 1)
    assert calls == [1]
    assert remembered(noting(shifted(lu.wrap_init(core), -4), "note")[0], 1) == 6 and calls == [1, 1]
    with pytest.raises(lu.StoreException, match="Store occupied"):
        fun.call_wrapped(1)
    other = noting(lu.wrap_init(core), "other")[1]
    assert lu.merge_linear_aux(other, aux) == (False, ("note", 1))
    assert lu.merge_linear_aux(aux, other) == (True, ("note", 1))
    with pytest.raises(lu.StoreException, match="neither"):
        lu.merge_linear_aux(other, other)


def test_places_in_the_users_program():
    from veery.extend import source_info_util

    with veery.named_scope("outer"):
        place = source_info_util.current()
        assert source_info_util.current_name_stack() == place.name_stack == "outer"
    assert "test_extending.py" in source_info_util.summarize(place)


def test_compile_time_evaluation_meets_tracers(in_numpy):
    def f(x):
        with veery.ensure_compile_time_eval():
            known = float(lax.sin(np.float64(0.5)))
            return lax.add(lax.mul(x, known), lax.add(1.0, 2.0))

    for g in f, veery.jit(f), veery.vmap(f):
        np.testing.assert_allclose(g(np.arange(3.0)), np.arange(3.0) * np.sin(0.5) + 3, rtol=1e-12)
    assert [e.primitive.name for e in veery.make_jaxpr(f)(1.0).eqns] == ["mul", "add"]
    np.testing.assert_allclose(veery.grad(f)(2.0), np.sin(0.5))


def test_static_arguments_of_make_jaxpr_are_there():
    with pytest.raises(ValueError, match="only 2 positional arguments"):
        veery.make_jaxpr(lambda n, x: x, static_argnums=5)(3, 1.0)


def test_generator_and_platforms(in_numpy):
    from veery.extend import backend, random

    counts = np.arange(5, dtype=np.uint32)
    mixed = random.threefry_2x32(np.array([1, 2], np.uint32), counts)
    assert mixed.tolist() == [2052595727, 3504730591, 2527474599, 1880214352, 1914734168]
    with pytest.raises(TypeError, match="requires uint32 arguments, got uint32, uint32, int32"):
        random.threefry_2x32(np.array([1, 2], np.uint32), counts.astype(np.int32))
    keys = random.random_seed(np.arange(6).reshape(2, 3), impl=random.threefry_prng_impl)
    assert keys.shape == (2, 3) and random.seed_with_impl("threefry2x32", np.arange(2)).shape == (2,)
    cpu = backend.get_backend("cpu")
    assert cpu.platform == "cpu" and cpu.devices() == veery.devices("cpu") and cpu.device_count() == len(cpu.devices())
    assert backend.get_backend(cpu) is cpu and backend.get_backend().platform in backend.backends()
    assert backend.get_default_device() in cpu.devices() and cpu.platform_version.startswith("IREE 3")
    with pytest.raises(RuntimeError, match="nonsense"):
        backend.get_backend("nonsense")


def test_primitives_have_jaxs_names():

    def program(key, ref):
        ref[...] = veery.checkpoint(lambda x: x)(ref[...])
        return veery.random.bits(veery.random.fold_in(veery.random.split(key)[0], 1)), veery.random.key(ref[...])

    found = set()

    def look(jaxpr):
        for eqn in jaxpr.eqns:
            found.add(eqn.primitive)
            for inner in eqn.params.values():
                if hasattr(inner, "jaxpr"):
                    look(inner.jaxpr)

    look(veery.make_jaxpr(program)(veery.random.key(0), veery.new_ref(1)).jaxpr)
    names = "remat_p get_p swap_p random_bits_p random_fold_in_p random_split_p random_seed_p"
    assert {getattr(primitives, name) for name in names.split()} <= found


def test_what_libraries_ask_of_primitives_and_jaxprs():
    """Distrax asks each primitive whether it calls a jaxpr, Haiku a closed jaxpr for the variables of its constants."""
    kept = np.arange(3.0)
    closed = veery.make_jaxpr(lambda x: lax.sin(x) + kept.sum())(1.0)
    assert not any(eqn.primitive.call_primitive or eqn.primitive.map_primitive for eqn in closed.eqns)
    assert closed.constvars == closed.jaxpr.constvars
    assert len(closed.constvars) == len(closed.consts)


@pytest.mark.compiler
def test_primitives_whose_rules_are_methods():
    """A class that defines them as methods of the names that they have in JAX, as kfac-jax has."""

    class Tag(core.Primitive):
        multiple_results = True

        def __init__(self):
            super().__init__("tag")
            mlir.register_lowering(self, lambda ctx, *xs, **params: xs)
            ad.primitive_jvps[self] = lambda xs, ts, **params: (self.bind(*xs, **params), ts)
            batching.primitive_batchers[self] = lambda xs, dims, **params: (self.bind(*xs, **params), dims)

        def impl(self, *xs, **params):
            return xs

        def abstract_eval(self, *avals, **params):
            return avals, core.no_effects

    tag_p = Tag()
    f = lambda x: sum(tag_p.bind(x, x * 2, why="because"))
    assert f(np.float32(1)) == veery.jit(f)(np.float32(1)) == 3 and veery.grad(f)(1.0) == 3
    np.testing.assert_array_equal(veery.vmap(f)(np.arange(3.0)), [0, 3, 6])
    assert "tag[why=because] a b" in str(veery.make_jaxpr(f)(1.0))
