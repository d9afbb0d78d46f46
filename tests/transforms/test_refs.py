"""References: reading and writing, in every transformation and control flow, as NumPy's arrays are written to."""

from __future__ import annotations

import numpy as np
import pytest
from support import numerics

import veery
from veery import lax, numpy as jnp
from veery._core.jaxpr import check_jaxpr
from veery.test_util import check_grads

A = np.arange(24.0).reshape(2, 3, 4)
I = np.array  # noqa: E741


def close(actual, expected, tolerance=1e-6):
    np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), rtol=tolerance, atol=tolerance)


# Indexing: index, and what NumPy calls it where that differs.

INDICES = [
    ..., (), 1, -1, np.int32(1), (0, 1), (0, 1, -2), slice(None), slice(1, None), (slice(None), slice(0, 3, 2)),
    (..., 1), (..., slice(1, -1)), (1, ..., slice(None, None, 3)), I([0, 1, 1]), I([1, -1]), [0, 1],
    (slice(None), I([2, 0])), (slice(None), I([[1], [2]]), I([0, 3])), (I([0, 1]), slice(None), I([1, 2])),
    (0, slice(None), I([1, 2])), (0, I([1, 2]), slice(1, 3)), (I([], np.int32),), (slice(1, 1),), (slice(0, 10),),
    (I(1), I([0, 2])), np.uint8(1),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "bfloat16", "complex64"])
def test_reads_and_writes_where_numpy_does(in_numpy, dtype):
    start = jnp.asarray(A % 2 if dtype == "bool" else A, dtype)
    for index in INDICES:
        expected = np.array(start)
        ref = veery.new_ref(start)
        assert ref[index].dtype == start.dtype
        np.testing.assert_array_equal(ref[index], expected[index])
        new = np.full(expected[index].shape, 1, expected.dtype)
        old = veery.ref.swap(ref, index, jnp.asarray(new))
        np.testing.assert_array_equal(old, expected[index])
        expected[index] = new
        np.testing.assert_array_equal(ref[...], expected, err_msg=str(index))
        if dtype != "bool":
            veery.ref.addupdate(ref, index, jnp.asarray(new))
            np.add.at(expected, index, new)
            np.testing.assert_array_equal(ref[...], expected, err_msg=str(index))


def test_parts_of_parts(in_numpy):
    ref = veery.new_ref(A)
    part = ref.at[1, 1:].at[:, ::2]
    assert (part.shape, part.ndim, part.size, part.dtype) == ((2, 2), 2, 4, np.float64)
    np.testing.assert_array_equal(part[...], A[1, 1:, ::2])
    np.testing.assert_array_equal(part.get(0), A[1, 1, ::2])
    expected = A.copy()
    part[0] = np.zeros(2)
    expected[1, 1, ::2] = 0
    part.addupdate(np.ones((2, 2)))
    expected[1, 1:, ::2] += 1
    np.testing.assert_array_equal(part.swap(5.0, (1, 1)), expected[1, 2, 2])
    expected[1, 2, 2] = 5
    part.set(7.0, (0, 0))
    expected[1, 1, 0] = 7
    np.testing.assert_array_equal(ref[...], expected)


# What JAX does where an index is not known and out of bounds: (index, read, place written).
OUT_OF_BOUNDS = [(-1, 5, 5), (-7, 0, 0), (5, 5, 5), (6, 5, 5), (100, 5, 5), (I([-1, 0]), I([5, 0]), I([5, 0])),
                 (I([6, 2]), I([5, 2]), I([2])), (I([-7, 2]), I([0, 2]), I([2]))]  # fmt: skip


@pytest.mark.parametrize("index, read, written", OUT_OF_BOUNDS, ids=str)
def test_indices_out_of_bounds(in_numpy, index, read, written):
    x = np.arange(6.0)
    ref = veery.new_ref(x)
    np.testing.assert_array_equal(veery.jit(lambda i: ref[i])(index), x[read])
    veery.jit(lambda i: veery.ref.set(ref, i, np.full(np.shape(i), 9.0)))(index)
    expected = x.copy()
    expected[written] = 9
    np.testing.assert_array_equal(ref[...], expected)


REFUSED = [
    (lambda r: r[3], ValueError, "Out of bound indexer: idx=3, dim=3"),
    (lambda r: r[-4], ValueError, "Out of bound indexer"),
    (lambda r: r[::-1], ValueError, "slice must have a step >= 1"),
    (lambda r: r[5:], ValueError, "Out of bound slice: start=3, dim=3"),
    (lambda r: r[1, 2], ValueError, "`indices` must not be longer than `shape`"),
    (lambda r: r[..., ...], ValueError, "Only one ellipsis"),
    (lambda r: r[jnp.array([True, False, True])], IndexError, "boolean indices must be concrete"),
    (lambda r: r[True], IndexError, "boolean indices must be concrete"),
    (lambda r: r[1.5], TypeError, "indexed by integers"),
    (lambda r: r["a"], TypeError, "not a valid JAX type"),
    (lambda r: r.at[1, 2], ValueError, "must not be longer"),
    (lambda r: veery.new_ref(A)[I([0, 1]), I([0, 1, 2])], ValueError, "Cannot broadcast"),
    (lambda r: veery.ref.set(r, ..., 0.0), ValueError, "Invalid shape for `swap`. Ref shape: \\(3,\\)"),
    (lambda r: veery.ref.set(r, 0, np.int32(1)), ValueError, "Invalid dtype for `swap`. Ref dtype: float32. Value dt"),
    (lambda r: veery.ref.addupdate(r, 0, np.int32(1)), ValueError, "Invalid dtype for `addupdate`"),
    (lambda r: veery.ref.addupdate(r, ..., jnp.ones(2)), ValueError, "Invalid shape for `addupdate`"),
    (lambda r: veery.ref.set(r, ..., r), ValueError, "Cannot store a Ref into another Ref"),
    (lambda r: veery.ref.get(jnp.ones(3)), ValueError, "Can only call `ref_get` on a `Ref`"),
    (lambda r: veery.ref.set(jnp.ones(3), 0, 1.0), ValueError, "Can only call `ref_set` on a `Ref`"),
    (lambda r: veery.freeze(jnp.ones(3)), ValueError, "Can only call `freeze` on a `Ref`"),
    (lambda r: veery.new_ref("a"), TypeError, "interpreting argument to new_ref"),
    (lambda r: veery.new_ref(r), TypeError, "interpreting argument to new_ref"),
    (lambda r: veery.new_ref(1.0, memory_space="x"), NotImplementedError, "memory_space"),
    (lambda r: jnp.sin(r), TypeError, "is no array; read it with"),
    (lambda r: r + 1, TypeError, "unsupported operand"),
    (lambda r: np.asarray(r), TypeError, "is no array"),
    (lambda r: r.mean(), AttributeError, "ref\\[...\\].mean"),
    (lambda r: veery.jit(lambda x: x + 1)(r), TypeError, "unsupported operand type.* for add: .* type Ref"),
    (lambda r: veery.jit(lambda x: lax.neg(x))(r), ValueError, "Attempting to pass a Ref"),
    (lambda r: veery.jit(lambda x: x)(r), ValueError, "cannot be returned.\n\n.*passed in as the argument x"),
    (lambda r: veery.jit(lambda: veery.new_ref(1.0))(), ValueError, "cannot be returned.\n\n.*created on line .*py"),
    (lambda r: lax.scan(lambda c, _: (c, None), r, None, 2), ValueError, "returned a mutable array reference"),
    (lambda r: lax.scan(lambda c, x: (c, veery.new_ref(x)), 0.0, np.ones(2)), ValueError, "cannot be returned"),
    (lambda r: lax.while_loop(lambda r: r[0] < 1, lambda r: r, r), ValueError, "cannot be returned"),
    (lambda r: lax.cond(True, lambda r: r, lambda r: r, r), ValueError, "cannot be returned"),
    (lambda r: veery.jit(lambda x, y: x[0])(r, r), ValueError, "appeared at both x and y"),
    (lambda r: veery.jit(lambda x: x[0] + r[0])(r), ValueError, "closed over and passed as the argument x"),
    (lambda r: lax.scan(lambda c, x: (c + r[0], None), 0.0, r), ValueError, "both closed over and passed"),
    (lambda r: lax.cond(True, lambda x: x[0] + r[0], lambda x: x[0], r), ValueError, "both closed over and passed"),
    (lambda r: veery.vmap(lambda x: veery.ref.set(r, 0, x))(jnp.ones(2)), ValueError, "vmapped value on an unbatched"),
    (lambda r: veery.vmap(lambda x: veery.ref.addupdate(r, 0, 1.0))(jnp.ones(2)), ValueError, "an addupdate operation"),
    (lambda r: veery.grad(lambda x: veery.ref.set(r, 0, x) or x)(1.0), ValueError, "a differentiated value on a non-d"),
    (lambda r: veery.jvp(lambda x: veery.ref.set(r, 0, x) or x, (1.0,), (1.0,)), ValueError, "a differentiated value"),
    (lambda r: veery.grad(lambda x: x[0])(r), ValueError, "is differentiated in an array reference"),
    (lambda r: veery.jvp(lambda x: x[0], (r,), (jnp.ones(3),)), TypeError, "the tangent of a reference is one"),
    (lambda r: veery.pmap(lambda x: x[...])(veery.new_ref(jnp.ones((1, 2)))), ValueError, "pmap"),
    (lambda r: veery.jit(lambda x: x[0]).lower(r).compile().save("x"), ValueError, "array references"),
    (lambda r: veery.export.export(veery.jit(lambda x: x[0]))(r), ValueError, "array references"),
]  # fmt: skip


@pytest.mark.compiler
@pytest.mark.parametrize("i", range(len(REFUSED)))
def test_refusals(i):
    use, error, words = REFUSED[i]
    with pytest.raises(error, match=words):
        use(veery.new_ref(jnp.arange(3.0)))


def leaking(transform):
    held = []
    transform(lambda x: held.append(veery.new_ref(x)) or x)(1.0)
    return held[0][...]


@pytest.mark.parametrize("transform", [veery.jit, veery.grad, lambda f: lambda x: veery.vmap(f)(jnp.ones(2))])
def test_references_do_not_outlive_their_functions(in_numpy, transform):
    with pytest.raises(veery.errors.UnexpectedTracerError, match="Ref"):
        leaking(transform)


def test_attributes():
    ref = veery.new_ref(jnp.arange(6, dtype="int16").reshape(2, 3))
    assert (ref.shape, ref.dtype, ref.ndim, ref.size, len(ref), ref.weak_type) == ((2, 3), np.int16, 2, 6, 2, False)
    assert (repr(ref.aval), str(veery.typeof(ref))) == ("Ref{int16[2,3]}", "Ref{int16[2,3]}")
    assert isinstance(ref, veery.Ref) and not isinstance(ref, veery.Array) and veery.Ref is veery.ref.Ref
    kinds = []
    veery.eval_shape(lambda x: kinds.append((isinstance(x, veery.Ref), isinstance(x, veery.Array))), ref)
    assert kinds == [(True, False)]
    assert repr(veery.new_ref(1.0)) == "Ref(1., dtype=float32, weak_type=True)"
    assert repr(veery.new_ref(veery.random.key(0))).startswith("Ref((), dtype=key<fry>)")
    assert ref == ref and ref != veery.new_ref(ref[...]) and len({ref, ref}) == 1
    assert veery.tree.leaves({"a": ref}) == [ref]
    assert ref.sharding == ref[...].sharding and not ref.committed and ref.unsafe_buffer_pointer()


def test_what_is_written_is_cast_as_in_jax():
    weak = veery.new_ref(1.0)
    assert weak[...].weak_type
    ref = veery.new_ref(jnp.float32(1))
    ref[...] = 2.0
    assert not ref[...].weak_type
    small = veery.new_ref(jnp.int8(1))
    small[...] = jnp.int32(5)
    assert small[...].dtype == np.int8
    with veery.enable_x64(True):
        ref[...] = 3.0
        with pytest.raises(ValueError, match="Invalid dtype"):
            ref[...] = np.float64(4.0)


def test_an_array_that_was_read_stays():
    x = jnp.ones(2)
    ref = veery.new_ref(x)
    before = ref[...]
    ref[...] = ref[...] + 1
    np.testing.assert_array_equal(x, 1)
    np.testing.assert_array_equal(before, 1)
    np.testing.assert_array_equal(veery.freeze(ref), 2)
    host = np.ones(2, np.float32)
    ref[...] = host
    host[0] = 7
    np.testing.assert_array_equal(ref[...], 1)
    assert veery.ref.free_ref(ref) is None
    np.testing.assert_array_equal(veery.empty_ref(jnp.ones(2))[...], 0)


# Programs that write to a reference (or an array of NumPy), for each way to give them one.


def straight(r, x):
    r[0] = x[1] * x[0]
    r[1:] += r[0]
    r[2] = np.float64(3) * r[1]
    return r[...].sum()


def looped(r, x):
    def step(c, v):
        r[...] = r[...] * v + c
        return c + r[1], r[0]

    c, ys = lax.scan(step, x[0], x)
    return c + ys.sum() + r[...].sum()


def counted(r, x):
    x = jnp.asarray(x)
    lax.fori_loop(0, 3, lambda i, _: veery.ref.set(r, i, x[i] * (1.0 + i)), None)
    return r[...].sum()


def chosen(r, x):
    def double():
        r[...] = 2 * r[...]
        return x[0] * x[1]

    def first():
        r[0] = x[2]
        return r[1]

    y = lax.cond(x[0] > 0, double, first) + lax.cond(x[0] < 0, double, first)
    return y + lax.switch(1, [lambda s: s[0], lambda s: s[1] * x[1], lambda s: s[2]], r) + r[...].sum()


def waited(r, x):
    x = jnp.asarray(x)

    def step(i):
        r[i] = x[i] * x[i]
        return i + 1

    n = lax.while_loop(lambda i: (i < 3) & (r[2] < 100), step, 0)
    lax.fori_loop(n - 3, 2, lambda i, _: veery.ref.addupdate(r, i, x[i + 1] * r[2]), None)
    return r[...].sum() * n


def nested(r, x):
    @veery.jit
    def inner(s, v):
        s[1] = s[0] * v
        t = veery.new_ref(s[...])
        t[0] += v
        return veery.freeze(t).sum()

    def step(c, v):
        y = inner(r, v)
        return c + y, lax.cond(v > 0, lambda: r[1], lambda: y)

    c, ys = lax.scan(step, 0.0 * x[0], x)
    return c + (ys * x).sum()


def checkpointed(r, x):
    @veery.checkpoint
    def f(v):
        t = veery.new_ref(v)
        t[0] = veery.numpy.sin(t[1])
        r[0] = t[0] * v[2]
        return t[...] * r[...]

    return f(x).sum() + r[0]


PROGRAMS = {f.__name__: f for f in (straight, looped, counted, chosen, waited, nested, checkpointed)}
X = np.array([0.3, -0.7, 1.1])
START = np.array([1.0, 2.0, 3.0])


def by_values(program):
    """The program as a pure function of x and what the reference holds at first, which returns what it holds then."""

    def fun(x, start):
        ref = veery.new_ref(start)
        y = program(ref, x)
        return y, ref[...]

    return fun


def test_straight_lines_are_numpys(in_numpy):
    for x in (X, -X):
        array, ref = START.copy(), veery.new_ref(START)
        close(straight(ref, x), straight(array, x))
        close(ref[...], array)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_do_the_same_in_every_way(in_numpy, name):
    program = PROGRAMS[name]
    expected, then = by_values(program)(X, START)
    ways = {
        "compiled": lambda ref: veery.jit(by_values(program))(X, START),
        "argument": lambda ref: (veery.jit(program)(ref, X), ref[...]),
        "closed over": lambda ref: (veery.jit(lambda x: program(ref, x))(X), ref[...]),
        "twice": lambda ref: (veery.jit(veery.jit(program))(ref, X), ref[...]),
        "in a scan": lambda ref: (lax.scan(lambda c, x: (c, program(ref, x)), 0, X[None])[1][0], ref[...]),
        "in a branch": lambda ref: (lax.cond(True, lambda: program(ref, X), lambda: 0.0), ref[...]),
        "in a batch": lambda ref: (veery.vmap(program)(box := veery.new_ref(START[None]), X[None])[0], box[0]),
        "checkpointed": lambda ref: (veery.checkpoint(program)(ref, X), ref[...]),
    }
    for way, run in ways.items():
        y, held = run(veery.new_ref(START))
        np.testing.assert_allclose(y, expected, rtol=1e-12, err_msg=way)
        np.testing.assert_allclose(held, then, rtol=1e-12, err_msg=way)


@pytest.mark.parametrize("name", sorted(PROGRAMS.keys() - {"waited"}))
def test_derivatives(in_numpy, name):
    fun = by_values(PROGRAMS[name])
    scalar = lambda x, start: (lambda y, held: y + (held * X).sum())(*fun(x, start))
    for f in (scalar, veery.jit(scalar)):
        check_grads(f, (X, START), order=2, atol=1e-4, rtol=1e-4, eps=1e-4)
    batch = np.stack([X, X + 0.1])
    grads = veery.vmap(veery.grad(scalar), (0, None))(batch, START)
    close(grads, [numerics.gradient(lambda x: scalar(x, START), x) for x in batch], 1e-5)


def test_forward_derivative_of_a_loop(in_numpy):
    scalar = lambda x: by_values(waited)(x, START)[0]
    value, slope = veery.jvp(scalar, (X,), (START,))
    close(slope, numerics.directional(scalar, [X], [START]), 1e-5)


@pytest.mark.parametrize("name", PROGRAMS)
def test_batches(in_numpy, name):
    """Each element of a batch has a reference of its own."""
    program = PROGRAMS[name]
    xs, starts = np.stack([X, -X, 2 * X]), np.stack([START, START + 1, START - 1])
    one_by_one = [by_values(program)(x, start) for x, start in zip(xs, starts)]
    for way in (veery.vmap, lambda f: veery.jit(veery.vmap(f)), lambda f: veery.vmap(veery.jit(f))):
        refs = veery.new_ref(starts)
        close(way(program)(refs, xs), [y for y, _ in one_by_one])
        close(refs[...], [held for _, held in one_by_one])
    columns = veery.new_ref(starts.T)
    close(veery.vmap(program, in_axes=(1, 0))(columns, xs), [y for y, _ in one_by_one])
    close(columns[...].T, [held for _, held in one_by_one])


def test_batched_reads_and_results(in_numpy):
    ref = veery.new_ref(START)
    close(veery.vmap(lambda i: ref[i])(I([2, 0])), START[[2, 0]])
    close(veery.vmap(lambda r, x: r[0] + x, in_axes=(None, 0))(ref, X), START[0] + X)
    made = veery.vmap(lambda x: veery.new_ref(x * 2), out_axes=0)(X)
    assert isinstance(made, veery.Ref)
    close(made[...], 2 * X)
    with pytest.raises(NotImplementedError, match="State effect not supported in vmap-of-cond"):
        veery.vmap(lambda p: lax.cond(p, lambda: veery.ref.set(ref, 0, 1.0), lambda: None))(X > 0)


def test_tangents_of_references(in_numpy):
    def f(r, x):
        r[0] = r[1] * x
        return r[...].sum() * x

    for fun in (f, veery.jit(f)):
        ref, tangent = veery.new_ref(START), veery.new_ref(X)
        y, dy = veery.jvp(fun, (ref, 2.0), (tangent, 1.0))
        pure = lambda start, x: by_values(lambda r, x: f(r, x))(x, start)
        (y2, held), (dy2, slope) = veery.jvp(pure, (START, 2.0), (X, 1.0))
        for actual, expected in ((y, y2), (dy, dy2), (ref[...], held), (tangent[...], slope)):
            close(actual, expected)


def test_what_is_stopped_may_be_written_outside(in_numpy):
    ref = veery.new_ref(0.0)

    def f(x):
        ref[...] = lax.stop_gradient(x)
        veery.ref.addupdate(ref, ..., lax.stop_gradient(x))
        return x * x * ref[...]

    for fun in (f, veery.jit(f), lambda x: lax.scan(lambda c, _: (f(c), None), x, None, 1)[0]):
        ref[...] = 0.0
        close(veery.grad(fun)(3.0), 2 * 3 * 6)
        assert float(ref[...]) == 6
    free = veery.new_ref(0.0, kind="no_grad_no_remat")
    close(veery.grad(lambda x: veery.ref.set(free, ..., x) or x * x)(3.0), 6.0)
    assert float(free[...]) == 3


@veery.custom_vjp
def stash(ref, x):
    """The identity, which leaves its cotangent in a reference."""
    return x


def stash_bwd(ref, ct):
    ref[...] = ct
    return None, ct


stash.defvjp(lambda ref, x: (x, ref), stash_bwd)


def stashed(ref, x):
    return jnp.cos(stash(ref, jnp.sin(x)))


def stashed_in_scan(ref, x):
    return lax.scan(lambda c, _: (stash(ref, jnp.sin(c)), None), x, None, length=3)[0]


def stashed_in_cond(ref, x):
    return lax.cond(x > 0, lambda: stashed(ref, x), lambda: x)


def test_backward_passes_may_write(in_numpy):
    """Closed over, as an argument, compiled before and after; the cotangent is that of what `stash` returns."""
    x = 2.0
    down = [np.cos(x), np.cos(np.sin(x)), np.cos(np.sin(np.sin(x)))]
    cases = [
        (stashed, -np.sin(np.sin(x)), -np.sin(np.sin(x)) * np.cos(x)),
        (stashed_in_cond, -np.sin(np.sin(x)), -np.sin(np.sin(x)) * np.cos(x)),
        (stashed_in_scan, down[1] * down[2], np.prod(down)),
    ]
    kept = (None, veery.checkpoint_policies.everything_saveable)
    cases += [(veery.checkpoint(f, policy=policy), *expected) for f, *expected in cases for policy in kept]
    for f, ct, gradient in cases:
        for fun in (
            lambda ref, x, f=f: veery.grad(lambda x: f(ref, x))(x),
            veery.grad(f, argnums=1),
            veery.grad(veery.jit(f), argnums=1),
            veery.jit(veery.grad(f, argnums=1)),
        ):
            ref = veery.new_ref(0.0)
            close(fun(ref, x), gradient)
            close(ref[...], ct)
    each = veery.new_ref(np.zeros(3))
    close(veery.grad(lambda x: lax.scan(lambda c, r: (stash(r, jnp.sin(c)), None), x, each)[0])(x), np.prod(down))
    close(each[...], [down[1] * down[2], down[2], 1.0])
    with pytest.raises(ValueError, match="vmap\\(grad"):
        veery.grad(lambda x: veery.vmap(stash)(each, x).sum())(np.ones(3))
    veery.vmap(lambda r, x: veery.grad(lambda x: stash(r, x * x))(x))(each, np.ones(3))
    close(each[...], 1.0)


def test_parts_are_arguments(in_numpy):
    """Of what takes functions, but for maps: its parts are not the reference's."""

    def double(part):
        part[1] *= 2
        return part[...]

    def within(part):
        return lax.scan(lambda c, _: (c, double(part)), 0, None, length=1)[1][0]

    branches = lambda part: lax.cond(part[0] > 0, double, double, part)
    for wrap in (lambda f: f, veery.jit):
        for f in (double, veery.jit(double), veery.checkpoint(double), within, branches):
            for index in (slice(1, 4), np.array([3, 0, 2]), slice(None, None, 2)):
                ref, expected = veery.new_ref(np.arange(1.0, 7.0)), np.arange(1.0, 7.0)
                part = wrap(lambda ref, f=f, index=index: f(ref.at[index]))(ref)
                expected[np.arange(6)[index][1]] *= 2
                close(part, expected[index])
                close(ref[...], expected)
    with pytest.raises(TypeError, match="cannot be mapped over"):
        veery.vmap(double)(veery.new_ref(np.zeros(7)).at[1:6])


def test_loops_over_references(in_numpy):
    """A scan's xs may be a reference: each step has the part that it may write to."""
    for wrap in (lambda f: f, veery.jit):
        ref, out = veery.new_ref(X), veery.new_ref(np.zeros(3))

        def f(ref, out):
            def step(c, rs):
                r, o = rs
                r[...] = r[...] * 2
                o[...] = c
                return c + r[...], None

            return lax.scan(step, 0.0, (ref, out), reverse=True)[0]

        close(wrap(f)(ref, out), 2 * X.sum())
        close(ref[...], 2 * X)
        close(out[...], 2 * (X[::-1].cumsum()[::-1] - X))


def test_conditions_of_loops_may_write(in_numpy):
    ref = veery.new_ref(0)

    def asked(i):
        ref[...] += 1
        return (i < 3) & (ref[...] < 10)

    for wrap in (lambda f: f, veery.jit):
        ref[...] = 0
        assert int(wrap(lambda: lax.while_loop(asked, lambda i: i + 1, 0))()) == 3
        assert int(ref[...]) == 4


def test_jaxprs():
    def f(r, x):
        s = veery.new_ref(x)
        s[0] = r[1]
        veery.ref.addupdate(s, 1, 3.0)
        old = veery.ref.swap(r, slice(1, None), x[1:])
        return old, veery.freeze(s)[::2]

    closed = veery.make_jaxpr(f)(veery.new_ref(jnp.ones(3)), jnp.ones(3))
    check_jaxpr(closed)
    lines = [line.strip() for line in str(closed).splitlines()]
    assert lines[:6] == [
        "{ lambda ; a:Ref{f32[3]} b:f32[3]. let",
        "c:Ref{f32[3]} = new_ref[kind=None] b",
        "d:f32[] <- a[1]",
        "c[0] <- d",
        "c[1] += 3.0:f32[]",
        "e:f32[2] = slice[limit_indices=(3,) start_indices=(1,) strides=None] b",
    ]
    assert lines[6] == "f:f32[2], a[1:] <- a[1:], e" and "= freeze c" in lines[7]
    assert closed.effects


@pytest.mark.compiler
def test_compiled():
    """With types of 32 bits and of others, on the CPU; ahead of time too."""
    for dtype in ("float32", "int32", "bfloat16", "uint8"):
        ref = veery.new_ref(jnp.arange(6, dtype=dtype).reshape(3, 2))

        @veery.jit
        def f(r, i, x):
            r[i] = x
            r[1:, 1] += x
            veery.ref.addupdate(r, jnp.array([0, 0]), jnp.ones((2, 2), r.dtype))
            r[::2, 0] = x[:1].repeat(2)
            return r[2]

        expected = np.arange(6).reshape(3, 2)
        for i in (0, 2):
            x = np.array([7, 3]) + i
            last = f(ref, i, x.astype(ref.dtype))
            expected[i] = x
            expected[1:, 1] += x
            expected[0] += 2
            expected[::2, 0] = x[0]
            close(last.astype("float32"), expected[2])
        close(ref[...].astype("float32"), expected)
    compiled = veery.jit(lambda r, x: veery.ref.swap(r, 0, x)).lower(ref, jnp.ones(2, "uint8")).compile()
    close(compiled(ref, jnp.ones(2, "uint8")), expected[0])
    close(ref[0], 1)
    struct = veery.ShapeDtypeStruct((3,), "float32", is_ref=True)
    assert repr(struct) == "ShapeDtypeStruct(shape=(3,), dtype=float32, is_ref=True)"
    assert struct.update(shape=(2,)).is_ref and struct != veery.ShapeDtypeStruct((3,), "float32")
    assert veery.eval_shape(lambda r: r[1:], struct).shape == (2,)


@pytest.mark.compiler
def test_calls_without_references_stay_as_they_are():
    """They are remembered; calls with references write at each."""
    f = veery.jit(lambda x: x + 1)
    f(jnp.ones(2))
    assert f._entries
    total = veery.new_ref(jnp.zeros(()))

    @veery.jit
    def count(x):
        total[...] += x

    for _ in range(3):
        count(jnp.float32(2))
    assert float(total[...]) == 6 and count._cache_size() == 1
    total[...] = 1.0
    count(jnp.float32(2))
    assert float(total[...]) == 3
    with veery.disable_jit():
        count(jnp.float32(2))
    assert float(total[...]) == 5


@pytest.mark.compiler
def test_random_keys_in_references():
    ref = veery.new_ref(veery.random.key(0))

    @veery.jit
    def draw():
        key, ref[...] = veery.random.split(ref[...])
        return veery.random.uniform(key)

    first, second = draw(), draw()
    key, rest = veery.random.split(veery.random.key(0))
    close(first, veery.random.uniform(key))
    close(second, veery.random.uniform(veery.random.split(rest)[0]))


def test_empty_references_of_rank_0():
    def double(x):
        ref = veery.ref.empty_ref(veery.ShapeDtypeStruct((), "float32"))
        ref[...] = 2 * x
        return ref[...]

    assert float(veery.jit(double)(3.0)) == 6.0 and float(veery.grad(double)(3.0)) == 2.0


def test_rules_with_references_of_their_own_under_remat():
    def tripled(x):
        ref = veery.new_ref(x)
        ref[...] *= 3
        return ref[...]

    by_jvp = veery.custom_jvp(tripled)
    by_jvp.defjvp(lambda primals, tangents: (by_jvp(*primals), tripled(*tangents)))
    by_vjp = veery.custom_vjp(tripled)
    by_vjp.defvjp(lambda x: (by_vjp(x), None), lambda _, ct: (tripled(ct),))
    for function in (by_jvp, by_vjp):
        squared = veery.grad(veery.checkpoint(lambda x, f=function: f(x) * f(x)))
        assert float(squared(2.0)) == float(veery.jit(squared)(2.0)) == 36.0

        def in_loop(x, f=function):
            return lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, f(c[1])), (0, x))[1]

        def in_branch(x, f=function):
            return lax.cond(x > 0, f, lambda x: x, x)

        assert float(in_loop(2.0)) == float(veery.jit(veery.checkpoint(in_loop))(2.0)) == 18.0
        assert veery.vmap(veery.grad(in_branch))(jnp.array([1.0, -1.0])).tolist() == [3.0, 1.0]
