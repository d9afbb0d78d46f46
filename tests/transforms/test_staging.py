"""Tracing: what jaxprs look like, when functions run, and what tracers refuse."""

from __future__ import annotations

import re

import numpy as np
import pytest

import veery
from veery import lax
from veery._core.avals import ShapedArray
from veery._core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, JaxprTypeError, Var, check_jaxpr

VECTOR = np.ones(3, np.float32)


def text(fun, *args):
    return str(veery.make_jaxpr(fun)(*args))


def test_jaxprs_print_in_jax_syntax():
    assert text(lambda x: lax.mul(lax.sin(x), x), 1.0) == (
        "{ lambda ; a:f32[]. let b:f32[] = sin a; c:f32[] = mul b a in (c,) }"
    )
    assert text(lambda x, y: (x, y), 1, VECTOR) == "{ lambda ; a:i32[] b:f32[3]. let in (a, b) }"
    assert text(lambda x: lax.reduce_sum(x, (0,)), VECTOR) == (
        "{ lambda ; a:f32[3]. let b:f32[] = reduce_sum[axes=(0,)] a in (b,) }"
    )
    nested = text(veery.jit(lambda x: lax.neg(x)), VECTOR)
    assert "jit[" in nested and "neg" in nested and "jaxpr={ lambda ;" in nested


def test_long_jaxprs_take_a_line_an_equation():
    def fun(x):
        for _ in range(30):
            x = lax.sin(x)
        return x

    lines = text(fun, VECTOR).splitlines()
    assert lines[0] == "{ lambda ; a:f32[3]. let" and lines[-1] == "  in (be,) }"
    assert lines[26] == "    ba:f32[3] = sin z"
    assert len(lines) == 32


def test_constants_are_literals_or_constvars():
    closed = veery.make_jaxpr(lambda x: lax.add(lax.mul(x, np.float32(2)), VECTOR))(VECTOR)
    assert len(closed.consts) == 1 and closed.consts[0] is VECTOR
    assert "lambda a:f32[3]; b:f32[3]." in str(closed)


@pytest.mark.compiler
def test_effects_of_python_run_once_a_trace():
    calls = []

    @veery.jit
    def fun(x):
        calls.append(x.shape)
        return lax.neg(x)

    for _ in range(3):
        fun(VECTOR)
    fun(np.ones(4, np.float32))
    assert calls == [(3,), (4,)]


def test_tracers_print_as_in_jax():
    seen = []

    def fun(x):
        seen.append(repr(x))
        return x

    veery.make_jaxpr(fun)(VECTOR)
    veery.make_jaxpr(veery.vmap(fun))(np.ones((2, 3), np.float32))
    veery.jvp(fun, (1.0,), (2.0,))
    veery.vjp(fun, 1.0)
    assert seen == [
        "JitTracer(float32[3])",
        "VmapTracer(aval=float32[3], batched=float32[2,3])",
        "JVPTracer(primal=1.0, tangent=2.0)",
        "GradTracer(primal=1.0, typeof(tangent)=f32[])",
    ]


def test_leaked_tracers_are_named():
    leaked = []
    veery.make_jaxpr(lambda x: leaked.append(lax.sin(x)) or x)(1.0)
    with pytest.raises(veery.errors.UnexpectedTracerError, match="side effect") as error:
        lax.neg(leaked[0])
    assert re.search(r"test_staging\.py:\d+", str(error.value))
    with pytest.raises(veery.errors.UnexpectedTracerError):
        veery.make_jaxpr(lambda x: lax.add(x, leaked[0]))(1.0)


def test_static_arguments_choose_the_trace():
    traced = []

    def power(x, n, *, scale):
        traced.append((n, scale))
        return lax.mul(lax.integer_pow(x, n), np.float32(scale))

    fun = veery.jit(power, static_argnums=1, static_argnames="scale")
    make = lambda n, s: fun.trace(VECTOR, n, scale=s).jaxpr
    assert "integer_pow[y=3]" in str(make(3, 2))
    make(3, 2)
    make(4, 2)
    assert traced == [(3, 2), (4, 2)]
    with pytest.raises(ValueError, match="Non-hashable static arguments"):
        make([1], 2)
    with pytest.raises(ValueError, match="static_argnums"):
        veery.jit(lambda x: x, static_argnums=3)
    with pytest.raises(ValueError, match="static_argnames"):
        veery.jit(lambda x: x, static_argnames="y")


def test_true_and_one_are_different_static_arguments():
    fun = veery.jit(lambda flag: lax.full((), 2.0 if flag is True else 3.0), static_argnums=0)
    assert "2.0" in str(fun.trace(True).jaxpr)
    assert "3.0" in str(fun.trace(1).jaxpr)


def test_bad_arguments_are_named():
    with pytest.raises(TypeError, match=r"type <class 'str'> and was passed to the function at path p\['b'\]"):
        veery.jit(lambda p: p)({"a": 1.0, "b": "text"})
    with pytest.raises(TypeError, match="returned a value of type <class 'str'> at output component"):
        veery.jit(lambda x: {"x": x, "y": "text"})(1.0)
    with pytest.raises(TypeError, match="Expected a callable"):
        veery.jit(3)


def test_eval_shape_computes_nothing():
    out = veery.eval_shape(lambda x, y: {"d": lax.dot(x, y)}, veery.ShapeDtypeStruct((2, 3), np.float32), VECTOR)
    assert out == {"d": veery.ShapeDtypeStruct((2,), np.float32)}
    assert veery.ShapeDtypeStruct.like(VECTOR) == veery.ShapeDtypeStruct(VECTOR.shape, VECTOR.dtype)
    assert veery.ShapeDtypeStruct.like(1) == veery.ShapeDtypeStruct((), np.int32, weak_type=True)
    jaxpr, shape = veery.make_jaxpr(lax.sin, return_shape=True)(1.0)
    assert shape.shape == () and jaxpr.out_avals[0].dtype == np.float32


@pytest.mark.compiler
def test_types_stand_for_arguments_where_nothing_is_computed():
    f = lambda a, b: {"sum": a + b["c"]}
    types = ShapedArray((3,), np.dtype("float32")), {"c": ShapedArray((), np.dtype("float32"), weak_type=True)}
    assert veery.eval_shape(f, VECTOR, types[1]) == {"sum": veery.ShapeDtypeStruct((3,), np.float32)}
    assert veery.eval_shape(lambda x: x, types[1]["c"]).weak_type
    assert text(f, *types) == text(f, VECTOR, {"c": 1.0})
    traced = veery.jit(f).trace(*types)
    assert (traced.in_avals, traced.out_avals) == ((types, {}), {"sum": types[0]})
    assert "tensor<3xf32>" in veery.jit(f).lower(*types).as_text()
    with pytest.raises(TypeError, match="as an abstract array.*ShapedArray"):
        veery.jit(f)(*types)


def test_the_checker_finds_what_is_wrong():
    aval = ShapedArray((3,), np.float32)
    good = veery.make_jaxpr(lambda x: lax.sin(lax.cos(x)))(VECTOR)
    check_jaxpr(good)
    first, second = good.eqns
    unbound = good.jaxpr.replace(eqns=[second, first])
    with pytest.raises(JaxprTypeError, match="used before it is bound"):
        check_jaxpr(unbound)
    twice = good.jaxpr.replace(eqns=[first, first, second])
    with pytest.raises(JaxprTypeError, match="bound twice"):
        check_jaxpr(twice)
    x, y = Var(aval), Var(ShapedArray((4,), np.float32))
    wrong = Jaxpr([], [x], [y], [JaxprEqn([x], [y], lax.sin_p, {})])
    with pytest.raises(JaxprTypeError, match="result of type"):
        check_jaxpr(wrong)
    with pytest.raises(JaxprTypeError, match="consts"):
        check_jaxpr(ClosedJaxpr(wrong, [VECTOR]))


def test_equations_remember_the_users_line():
    closed = veery.make_jaxpr(lambda x: lax.sin(x))(1.0)
    (eqn,) = closed.eqns
    assert eqn.source_info.file == __file__
    gradient = veery.make_jaxpr(veery.grad(lambda x: lax.sin(x)))(1.0)
    assert all(e.source_info.file == __file__ for e in gradient.eqns)


def test_named_scopes_reach_equations():
    def fun(x):
        with veery.named_scope("encoder"):
            return lax.sin(x)

    (eqn,) = veery.make_jaxpr(fun)(1.0).eqns
    assert "encoder" in eqn.source_info.name_stack


@pytest.mark.compiler
def test_names_of_transformations():
    def layer(x):
        with veery.named_scope("layer"), veery.named_scope("norm"):
            return lax.mul(lax.sin(x), x)

    def model(x):
        with veery.named_scope("model"):
            return lax.neg(veery.grad(layer)(x))

    def names(f, *args):
        eqns = veery.make_jaxpr(f)(*args).eqns
        return {f"{eqn.source_info.name_stack}/{eqn.primitive}" for eqn in eqns}

    x = np.float32(0.3)
    assert names(veery.grad(layer), x) >= {"jvp(layer)/norm/sin", "transpose(jvp(layer))/norm/mul"}
    assert names(veery.vmap(layer), np.ones(3, np.float32)) == {"vmap(layer)/norm/sin", "vmap(layer)/norm/mul"}
    assert names(veery.grad(lambda x: lax.sin(x)), x) >= {"jvp()/cos", "transpose(jvp())/mul"}
    assert names(model, x) >= {"model/neg", "model/jvp(layer)/norm/cos", "model/transpose(jvp(layer))/norm/mul"}
    assert "transpose(jvp(layer))/norm/mul" in veery.jit(veery.grad(layer)).lower(x).as_text(debug_info=True)


def test_stages_tell_of_their_arguments():
    f = veery.jit(lambda x, y: (lax.neg(x["a"]), lax.neg(x["b"]), y), donate_argnums=0)
    traced = f.trace({"a": VECTOR, "b": VECTOR}, y=np.int32(1))
    assert traced.donate_argnums == (0, 1)
    (x,), by_name = traced.args_info
    assert sorted(x) == ["a", "b"] and by_name["y"].dtype == np.int32
    assert x["a"].shape == VECTOR.shape and x["a"].donated and not by_name["y"].donated
    assert isinstance(by_name["y"], veery.stages.ArgInfo)
