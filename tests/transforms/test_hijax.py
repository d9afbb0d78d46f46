"""Types and operations of the user's: staged, compiled, differentiated, in batches, in loops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import veery
from veery import lax, numpy as jnp
from veery.experimental import cur_qdd, hijax
from veery.test_util import check_grads

X = np.array([0.5, -1.25, 2.0])


def close(actual, expected, tolerance=1e-6):
    np.testing.assert_allclose(np.asarray(actual), expected, rtol=tolerance, atol=tolerance)


# An immutable type: a number as a sum of two.


@dataclass(frozen=True)
class Pair:
    high: Any
    low: Any


@dataclass(frozen=True)
class PairType(hijax.HiType):
    array: Any

    def lo_ty(self):
        return [self.array, self.array]

    def lower_val(self, hi_val):
        return [hi_val.high, hi_val.low]

    def raise_val(self, high, low):
        return Pair(high, low)

    def to_tangent_aval(self):
        return PairType(self.array.to_tangent_aval())

    def vspace_zero(self):
        return Pair(jnp.zeros(self.array.shape, self.array.dtype), jnp.zeros(self.array.shape, self.array.dtype))

    def vspace_add(self, x, y):
        return add_pairs(x, y)

    def str_short(self, short_dtypes=True, **_):
        return f"Pair[{self.array.str_short(short_dtypes)}]"

    _add = staticmethod(lambda x, y: add_pairs(x, y))
    total = hijax.aval_method(lambda x: join(x))
    dtype = hijax.aval_property(lambda x: x.aval.array.dtype)


hijax.register_hitype(Pair, lambda p: PairType(veery.typeof(p.high)))


class Split(hijax.HiPrimitive):
    """x as two halves."""

    def abstract_eval(self, x):
        return PairType(x), set()

    def to_lojax(self, x):
        return Pair(x / 2, x / 2)

    def jvp(self, primals, tangents):
        return split(*primals), split(*tangents)

    def transpose(self, ct, x):
        return [join(ct) / 2]


class Join(hijax.HiPrimitive):
    """The sum of the two."""

    def abstract_eval(self, pair):
        return pair.array, set()

    def to_lojax(self, pair):
        return pair.high + pair.low

    def jvp(self, primals, tangents):
        return join(*primals), join(*tangents)

    def transpose(self, ct, pair):
        return [both(ct)]


class Both(hijax.HiPrimitive):
    """A pair of the same twice, which is the cotangent of a sum."""

    def abstract_eval(self, x):
        return PairType(x), set()

    def to_lojax(self, x):
        return Pair(x, x)


class AddPairs(hijax.HiPrimitive):
    def abstract_eval(self, x, y):
        return x, set()

    def to_lojax(self, x, y):
        return Pair(x.high + y.high, x.low + y.low)

    def jvp(self, primals, tangents):
        return add_pairs(*primals), add_pairs(*map(hijax.instantiate_zeros, tangents))

    def transpose(self, ct, x, y):
        return [ct if hijax.is_undefined_primal(x) else None, ct if hijax.is_undefined_primal(y) else None]


split_p, join_p, both_p, add_p = Split("split"), Join("join"), Both("both"), AddPairs("add_pairs")
split, join, both, add_pairs = split_p.bind, join_p.bind, both_p.bind, add_p.bind


@pytest.mark.compiler
def test_values_go_in_and_out_of_compiled_functions():
    pair = split(jnp.asarray(X))
    assert isinstance(pair, Pair)

    @veery.jit
    def f(p, x):
        assert repr(p) == "JitTracer(Pair[float32[3]])" and p.dtype == np.float32 and not isinstance(p, veery.Array)
        q = veery.jit(lambda q: q + split(x))(p)
        return q, q.total() * 2

    out, total = f(pair, X)
    assert isinstance(out, Pair) and isinstance(out.high, veery.Array)
    close(out.low, X)
    close(total, 4 * X)
    assert "add_pairs" in str(veery.make_jaxpr(f)(pair, X))
    with pytest.raises(TypeError, match="unsupported operand type.* for mul"):
        veery.jit(lambda p: p * 2)(pair)
    with pytest.raises(TypeError, match="takes arrays; got a value of type Pair"):
        veery.jit(lambda p: lax.neg(p))(pair)
    carried, _ = lax.scan(lambda c, x: (c + split(x), None), pair, jnp.stack([X, X]))
    close(carried.high + carried.low, 3 * X)
    close(lax.cond(True, lambda: join(pair), lambda: jnp.zeros(3)), X)
    close(lax.while_loop(lambda c: jnp.sum(join(c)) < 10, lambda c: c + pair, pair).high * 2, 8 * X)
    with pytest.raises(NotImplementedError, match="runs over values of such types"):
        lax.scan(lambda c, x: (c, split(x)), 0.0, jnp.stack([X]))


@pytest.mark.compiler
def test_derivatives_through_a_type():
    f = lambda x: jnp.sum(jnp.sin(join(add_pairs(split(x * x), split(x)))))
    for fun in (f, veery.jit(f)):
        close(veery.grad(fun)(X), (2 * X + 1) * np.cos(X * X + X))
        close(veery.jvp(fun, (X,), (np.ones(3),))[1], np.sum((2 * X + 1) * np.cos(X * X + X)))
    close(veery.jit(veery.grad(f))(X), (2 * X + 1) * np.cos(X * X + X))


# A mutable type: a box that holds a pytree.


@dataclass(frozen=True)
class BoxHolds:
    avals: tuple
    treedef: Any


class Box:
    def __init__(self, value):
        self.leaves, self.treedef = veery.tree.flatten(value)

    def cur_qdd(self):
        return BoxHolds(tuple(map(veery.typeof, self.leaves)), self.treedef)


class BoxType(hijax.MutableHiType):
    def __hash__(self):
        return hash(BoxType)

    def __eq__(self, other):
        return isinstance(other, BoxType)

    def str_short(self, short_dtypes=True, **_):
        return "Box"

    __str__ = str_short

    def lo_ty_qdd(self, holds):
        return list(holds.avals)

    def new_from_loval(self, holds, *values):
        return Box(veery.tree.unflatten(holds.treedef, values))

    def read_loval(self, holds, box):
        assert box.treedef == holds.treedef
        return list(box.leaves)

    def update_from_loval(self, holds, box, *values):
        put(box, veery.tree.unflatten(holds.treedef, values))


class Take(hijax.HiPrimitive):
    multiple_results = True

    def abstract_eval(self, box, *, avals):
        return list(avals), set()

    def to_lojax(self, box, *, avals):
        return box.leaves


class Put(hijax.HiPrimitive):
    multiple_results = True

    def abstract_eval(self, box, *avals, treedef):
        box.mutable_qdd.update(BoxHolds(avals, treedef))
        return [], set()

    def to_lojax(self, box, *leaves, treedef):
        box.leaves, box.treedef = list(leaves), treedef
        return []


take_p, put_p = Take("take"), Put("put")
hijax.register_hitype(Box, lambda box: BoxType())


def take(box):
    holds = cur_qdd(box)
    return veery.tree.unflatten(holds.treedef, take_p.bind(box, avals=holds.avals))


def put(box, value):
    leaves, treedef = veery.tree.flatten(value)
    put_p.bind(box, *leaves, treedef=treedef)


@pytest.mark.compiler
def test_boxes_are_written_to():
    box = Box({"n": jnp.float32(1)})

    @veery.jit
    def f(box, x):
        put(box, take(box) | {"sum": jnp.sum(x)})
        veery.jit(lambda: put(box, {**take(box), "n": take(box)["n"] + 1}))()
        return take(box)["sum"] * 2

    close(f(box, X), 2 * X.sum())
    assert {k: float(v) for k, v in take(box).items()} == {"n": 2.0, "sum": float(X.astype(np.float32).sum())}
    close(f(box, -X), -2 * X.sum())
    assert float(take(box)["n"]) == 3
    counter = Box(jnp.float32(0))

    @veery.jit
    def g(box):
        lax.scan(lambda _, x: (None, put(box, take(box) + x)), None, jnp.arange(4.0))
        lax.fori_loop(jnp.int32(0), 2, lambda i, _: put(box, take(box) * 2), None)
        lax.cond(take(box) > 3, lambda: put(box, take(box) + 100), lambda: None)

    for wrap in (lambda f: f, veery.jit):
        put(counter, jnp.float32(0))
        wrap(g)(counter)
        assert float(take(counter)) == 124
    assert veery.eval_shape(lambda b: take(b), counter).shape == ()
    with pytest.raises(TypeError, match="another structure, shape or dtype at the end"):
        lax.scan(lambda _, x: (None, put(counter, jnp.stack([take(counter), x]))), None, jnp.arange(2.0))
    with pytest.raises(NotImplementedError, match="carries mutable values"):
        lax.scan(lambda b, _: (b, None), counter, None, 2)
    with pytest.raises(NotImplementedError, match="a loop carries a value of type .*; close over it"):
        lax.scan(lambda b, _: (b, take(b)), counter, None, 2)


def test_what_a_type_does_not_define_is_named():
    class Bare(hijax.HiType):
        pass

    for use in ("lo_ty", "to_tangent_aval", "vspace_zero"):
        with pytest.raises(NotImplementedError, match=f"Bare defines no {use}"):
            getattr(object.__new__(Bare), use)()
    with pytest.raises(NotImplementedError, match="defines no to_lojax"):
        hijax.HiPrimitive("nothing").bind(1.0)


# Operations with rules.


class Scaled(hijax.VJPHiPrimitive):
    """sin(x) * k, whose rule says so many times more."""

    def __init__(self, aval, k):
        self.in_avals, self.out_aval, self.params = (aval,), aval, {"k": k}
        super().__init__()

    def expand(self, x):
        return jnp.sin(x) * self.k

    def vjp_fwd(self, nzs_in, x):
        return self(x), jnp.cos(x)

    def vjp_bwd_retval(self, cosine, ct):
        return (ct * cosine * self.k,)

    def jvp(self, primals, tangents):
        return self(*primals), jnp.cos(primals[0]) * tangents[0] * self.k

    def batch_dim_rule(self, axis_data, dims):
        return dims[0]


class Product(hijax.VJPHiPrimitive):
    def __init__(self, a, b):
        self.in_avals, self.out_aval, self.params = ({"a": a, "b": b},), a, {}
        super().__init__()

    def expand(self, both):
        return both["a"] * both["b"]

    def vjp_fwd(self, nzs_in, both):
        return self(both), both

    def vjp_bwd(self, both, ct, accums):
        accums["a"].accum(ct * both["b"])
        accums["b"].accum(ct * both["a"])

    def batch_dim_rule(self, axis_data, dims):
        return 0 if None in dims[0].values() else dims[0]["a"]


def scaled(x, k=3.0):
    return Scaled(veery.typeof(x), k)(x)


@pytest.mark.compiler
def test_operations_with_rules_of_their_own():
    close(scaled(jnp.asarray(X)), 3 * np.sin(X))
    close(veery.jit(scaled)(X), 3 * np.sin(X))
    assert "call_hi_primitive" in str(veery.make_jaxpr(scaled)(X))
    total = lambda x: jnp.sum(scaled(x) ** 2)
    expected = 18 * np.sin(X) * np.cos(X)
    for f in (veery.grad(total), veery.grad(veery.jit(total)), veery.jit(veery.grad(total))):
        close(f(X.astype(np.float32)), expected, 1e-5)
    close(veery.jvp(scaled, (jnp.asarray(X),), (jnp.ones(3),))[1], 3 * np.cos(X))
    batch = np.stack([X, -X], 1).astype(np.float32)
    for f in (veery.vmap(scaled, 1, 1), veery.jit(veery.vmap(scaled, 1, 1))):
        close(f(batch), 3 * np.sin(batch))
    close(veery.vmap(veery.grad(total), 1, 1)(batch), 18 * np.sin(batch) * np.cos(batch), 1e-5)
    close(veery.vmap(veery.vmap(scaled))(batch), 3 * np.sin(batch))
    close(
        lax.scan(lambda c, x: (c + scaled(x), None), jnp.float32(0), jnp.asarray(X, "float32"))[0], 3 * np.sin(X).sum()
    )
    product = lambda a, b: Product(veery.typeof(a), veery.typeof(b))({"a": a, "b": b})
    with veery.enable_x64(True):
        check_grads(lambda x: jnp.sum(product(x, jnp.sin(x))), (X,), 1, modes=["rev"], atol=1e-5, rtol=1e-5)
        both = veery.vmap(lambda a, b: veery.grad(lambda a: jnp.sum(product(a, b)))(a), (0, None))
        close(both(np.stack([X, X]), X), np.stack([X, X]))
    assert Scaled(veery.typeof(1.0), 2.0) == Scaled(veery.typeof(1.0), 2.0) != Scaled(veery.typeof(1.0), 3.0)


class Scale(hijax.VJPHiPrimitive):
    """a * b * n, of a dictionary with a and b and an integer n, each in a list."""

    def __init__(self, arrays, count):
        self.in_avals, self.out_aval, self.params = (arrays, count), arrays["a"][0], {}
        super().__init__()

    def expand(self, arrays, count):
        return arrays["a"][0] * arrays["b"][0] * count

    def vjp_fwd(self, nzs_in, arrays, count):
        return self(arrays, count), (arrays, count)

    def vjp_bwd_retval(self, residuals, ct):
        arrays, count = residuals
        return {"a": [ct * arrays["b"][0] * count], "b": [ct * arrays["a"][0] * count]}, None

    def batch_dim_rule(self, axis_data, dims):
        return 0


def scale(a, b, n=3):
    arrays = {"a": [a], "b": [b]}
    return Scale(veery.tree.map(veery.typeof, arrays), veery.typeof(n))(arrays, n)


@pytest.mark.compiler
def test_gradients_in_some_arguments_of_those_that_a_rule_returns():
    close(veery.grad(scale)(2.0, 3.0), 9)
    close(veery.grad(scale, 1)(2.0, 3.0), 6)
    close(veery.jit(veery.grad(scale))(2.0, 3.0), 9)
    close(veery.grad(veery.grad(scale), 1)(2.0, 3.0), 3)
    close(veery.vmap(veery.grad(scale), (0, None))(X, 3.0), [9, 9, 9])
    a, b, counts = jnp.asarray(X), jnp.asarray(2 * X), jnp.array([1, 2, 3])
    for f in (veery.grad, lambda f, i: veery.jit(veery.grad(f, i))):
        total = lambda a, b, n: jnp.sum(veery.vmap(scale)(a, b, n))
        close(f(total, 0)(a, b, counts), 2 * X * [1, 2, 3])
        shared = lambda a, b: jnp.sum(veery.vmap(scale, (0, None))(a, b))
        close(f(shared, 1)(a, 5.0), 3 * X.sum())


class Linearized(hijax.VJPHiPrimitive):
    """a * sin(b), with the rules of `linearize`."""

    def __init__(self, a, b):
        self.in_avals, self.out_aval, self.params = (a, b), a, {}
        super().__init__()

    def expand(self, a, b):
        return a * jnp.sin(b)

    def lin(self, nzs_in, a, b):
        calls.append(nzs_in)
        return self(a, b), {"sin": jnp.sin(b), "slope": a * jnp.cos(b)}

    def linearized(self, residuals, a_dot, b_dot):
        calls.append((type(a_dot) is hijax.Zero, type(b_dot) is hijax.Zero))
        a_dot, b_dot = map(hijax.instantiate_zeros, (a_dot, b_dot))
        return residuals["sin"] * a_dot + residuals["slope"] * b_dot


class Reversed(Linearized):
    """The same with a rule for reverse mode beside it, which says ten times as much."""

    def vjp_fwd(self, nzs_in, a, b):
        return self(a, b), (jnp.sin(b), a * jnp.cos(b))

    def vjp_bwd_retval(self, residuals, ct):
        return tuple(10 * ct * x for x in residuals)

    def batch_dim_rule(self, axis_data, dims):
        return 0


calls: list[tuple[bool, bool]] = []
A, B = np.float32(2.0), np.float32(0.5)
SINE, SLOPE = np.sin(0.5), 2 * np.cos(0.5)


@pytest.mark.compiler
@pytest.mark.parametrize("kind", [Linearized, Reversed])
@pytest.mark.parametrize("wrap", [lambda f: f, veery.jit])
def test_rules_of_linearize(kind, wrap):
    f = wrap(lambda a, b: kind(veery.typeof(a), veery.typeof(b))(a, b))
    out, linear = veery.linearize(f, A, B)
    close(out, 2 * SINE)
    for apply in (linear, veery.jit(linear)):
        close(apply(1.0, 10.0), SINE + 10 * SLOPE)
    close(veery.jit(lambda a, b: veery.linearize(f, a, b)[1](1.0, 10.0))(A, B), SINE + 10 * SLOPE)
    close(veery.vmap(linear, (0, None))(X.astype(np.float32), 1.0), X * SINE + SLOPE)
    calls.clear()
    close(veery.linearize(lambda b: f(A, b), B)[1](2.0), 2 * SLOPE)
    assert set(calls) == {(False, True), (True, False)}  # what is differentiated, and which tangents are zero
    twice = lambda b: veery.linearize(f, A, b)[1](3.0, 0.0)
    close(veery.linearize(twice, B)[1](1.0), 3 * np.cos(0.5))
    close(veery.jacrev(twice)(B), 3 * np.cos(0.5))


@pytest.mark.compiler
def test_reverse_mode_beside_rules_of_linearize():
    f, g = (lambda a, b, k=k: k(veery.typeof(a), veery.typeof(b))(a, b) for k in (Linearized, Reversed))
    calls.clear()
    for wrap in (lambda f: f, veery.jit):
        for found, expected in zip(wrap(veery.grad(g, (0, 1)))(A, B), (10 * SINE, 10 * SLOPE), strict=True):
            close(found, expected)
    assert not calls
    for wrap in (lambda f: f, veery.jit):
        close(wrap(veery.grad(f, 1))(A, B), SLOPE)  # by the transpose of `linearized`
    close(veery.linearize(veery.grad(g), A, B)[1](0.0, 1.0), 10 * np.cos(0.5))
    close(veery.vmap(veery.grad(g, 1), (0, None))(jnp.array([A, 2 * A]), B), [10 * SLOPE, 20 * SLOPE])


class Signed(hijax.VJPHiPrimitive):
    """sin(x), and the sign of x, which has no tangent."""

    def __init__(self, aval):
        self.in_avals, self.out_aval, self.params = (aval,), (aval, {"sign": aval}), {}
        super().__init__()

    def expand(self, x):
        return jnp.sin(x), {"sign": jnp.sign(x)}

    def lin(self, nzs_in, x):
        return self(x), jnp.cos(x), (True, {"sign": False})

    def linearized(self, cosine, x_dot):
        return cosine * x_dot, {"sign": hijax.Zero(veery.typeof(x_dot))}


def test_results_without_tangent():
    out, linear = veery.linearize(lambda x: Signed(veery.typeof(x))(x), B)
    close(out[1]["sign"], 1)
    tangent, signs = linear(2.0)
    close(tangent, 2 * np.cos(0.5))
    close(signs["sign"], 0)


class NoRules(hijax.VJPHiPrimitive):
    def __init__(self, aval):
        self.in_avals, self.out_aval, self.params = (aval,), aval, {}
        super().__init__()


@pytest.mark.parametrize(
    "use, words",
    [
        (lambda op: op(1.0), "must implement `expand`"),
        (lambda op: veery.grad(op)(1.0), "must implement `vjp_fwd`"),
        (lambda op: veery.linearize(op, 1.0), "for linearize support `lin` and `linearized`"),
        (lambda op: op.lin((True,), 1.0), "must implement `lin`"),
        (lambda op: op.linearized(None, 1.0), "must implement `linearized`"),
        (lambda op: veery.jvp(op, (1.0,), (1.0,)), "must implement `jvp`"),
        (lambda op: veery.vmap(op)(np.ones(2, np.float32)), "must implement `batch` or `batch_dim_rule`"),
    ],
)
def test_rules_that_are_missing_are_named(use, words):
    with pytest.raises(NotImplementedError, match=words):
        use(NoRules(veery.typeof(1.0)))


def test_operations_are_checked():
    with pytest.raises(TypeError, match="takes arguments of the structure"):
        Scaled(veery.typeof(1.0), 1.0)(1.0, 2.0)
    with pytest.raises(TypeError, match="input type mismatch"):
        veery.jit(Scaled(veery.typeof(1.0), 1.0))(np.ones(2, np.float32))

    class Incomplete(hijax.VJPHiPrimitive):
        in_avals, out_aval = (), None

    with pytest.raises(AttributeError, match="should set `self.params`"):
        Incomplete()

    class Twice(Scaled):
        def vjp_bwd(self, res, ct, accum):
            pass

    with pytest.raises(AttributeError, match="should not override both"):
        Twice(veery.typeof(1.0), 1.0)
