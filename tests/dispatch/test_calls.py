"""Calls of a compiled function: the short ways find what the long way finds."""

from __future__ import annotations

import collections
import copy
import enum
import pickle
import threading

import numpy as np
import pytest

import veery
import veery.numpy as jnp
import veery_runtime
from veery._api.fast_calls import MISS
from veery._api.jit import JitFunction
from veery.errors import ConcretizationTypeError

Pair = collections.namedtuple("Pair", "a b")


class Level(enum.IntEnum):
    LOW = 1


X = jnp.arange(3.0)
# Calls of one function, in which neighbours differ in one thing; each is made several times, in turn.
CALLS = [
    (({"a": X, "b": (2.5, None)},), {}),
    (({"b": (2.5, None), "a": X},), {}),
    (({"a": (X, X), "b": (2.5, None)},), {}),
    (({"a": X, "b": (2.5, X)},), {}),
    (({"a": X, "b": [2.5, None]},), {}),
    (({"a": X, "b": Pair(2.5, None)},), {}),
    (({"a": X, "c": (2.5, None)},), {}),
    (({"a": X, "b": (2.5, None)},), {"n": 1}),
    (({"a": X, "b": (2.5, None)},), {"n": True}),
    (({"a": X, "b": (2.5, None)},), {"n": 2, "other": X}),
    (({"a": X, "b": (2.5, None)},), {"other": [X]}),
    (({"a": np.ones(3, np.float32), "b": (2, None)},), {}),
    (({"a": np.ones(3), "b": (np.float32(2), None)},), {}),
    (({"a": True, "b": (Level.LOW, None)},), {}),
    ((collections.OrderedDict(z=X, a=1j),), {}),
    (([],), {}),
    ((X,), {}),
    ((X, X), {}),
    ((1.5,), {}),
    ((-0.0,), {}),
]


def test_calls_of_many_structures_in_turn():
    traced = []

    def function(tree, *rest, n=0, other=None):
        traced.append((tree, n))
        return veery.tree.map(lambda x: 2 * x + n, (tree, rest, other)), type(n).__name__ == "bool"

    compiled = veery.jit(function, static_argnames="n")
    once = [veery.jit(function, static_argnames="n")(*args, **kwargs) for args, kwargs in CALLS]
    before = len(traced)
    for _ in range(4):
        for (args, kwargs), expected in zip(CALLS, once):
            found = compiled(*args, **kwargs)
            assert veery.tree.structure(found) == veery.tree.structure(expected)
            for x, y in zip(veery.tree.leaves(found), veery.tree.leaves(expected)):
                assert x.aval is y.aval and np.array_equal(x, y)
    assert len(traced) == before  # jit(function) again is the same function


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_code_made_for_a_call_does_what_the_call_does(number, monkeypatch):
    """And gives up where another one is made."""

    def function(tree, *rest, n=0, other=None):
        return {"z": (tree, None), "a": [rest, other], "pair": Pair(n, {}) if n else n}

    (args, kwargs), compiled = CALLS[number], veery.jit(function, static_argnames="n")
    first, _ = compiled(*args, **kwargs), compiled(*args, **kwargs)
    is_made = bool(compiled._fast)
    assert is_made != isinstance(args[0], collections.OrderedDict)
    with monkeypatch.context() as patch:
        if is_made:
            patch.setattr(JitFunction, "_known", None)
        again = compiled(*args, **kwargs)
    assert list(again) == ["a", "pair", "z"]
    assert repr(again) == repr(first)  # with the order of keys
    for fast in compiled._fast:
        given = [fast(args, kwargs) for args, kwargs in CALLS]
        assert sum(each is MISS for each in given) >= len(CALLS) - 2  # two orders of keys, two floats
        for each, (args, kwargs) in zip(given, CALLS):
            assert each is MISS or repr(each) == repr(compiled(*args, **kwargs))
        args, kwargs = CALLS[number]
        with veery.enable_x64(True):
            assert fast(args, kwargs) is MISS
        missed = []
        veery.make_jaxpr(lambda: missed.append(fast(args, kwargs)))()  # noqa: B023 (called at once)
        assert missed == [MISS]


@pytest.mark.parametrize("call", [((X,), {}), (({"w": X, "b": [X]},), {"k": 1.5}), ((X, 2), {"k": np.ones(2)})])
def test_known_calls_take_the_short_way(call, monkeypatch):
    args, kwargs = call
    compiled = veery.jit(lambda *args, k=None: veery.tree.leaves((args, k))[0] + 1, static_argnums=1)
    for _ in range(2):
        compiled(*args, **kwargs)
    monkeypatch.setattr(JitFunction, "_call", None)
    for _ in range(3):
        compiled(*args, **kwargs)


def _tripled(x, n=3):
    return x * n


@veery.jit
def doubled(x):
    return x * 2


def test_functions_that_were_called_pickle_and_copy():
    tripled = veery.jit(_tripled, static_argnames="n")
    for function, expected in ((tripled, [0, 3, 6]), (doubled, [0, 2, 4])):
        for _ in range(3):
            function(X)
        for other in (pickle.loads(pickle.dumps(function)), copy.copy(function), copy.deepcopy(function)):
            assert other(X).tolist() == expected
    assert pickle.loads(pickle.dumps(doubled)) is doubled
    assert pickle.loads(pickle.dumps(tripled))(X, n=2).tolist() == [0, 2, 4]


def test_pickled_arrays_have_the_bits_of_the_process_that_reads_them():
    with veery.enable_x64(True):
        wide = pickle.dumps(jnp.array([4.0, 1.0]))
        assert pickle.loads(wide).dtype == np.float64
    assert pickle.loads(wide).dtype == np.float32 and pickle.loads(wide).tolist() == [4, 1]
    with pytest.raises(ConcretizationTypeError, match="pickled"):
        veery.jit(lambda x: pickle.dumps(x) and x)(1.0)


def test_the_short_way_on_another_device(monkeypatch):
    veery_runtime.configure(num_cpu_devices=max(2, len(veery.devices("cpu"))))
    second = veery.devices("cpu")[1]
    there = veery.device_put(X, second)
    compiled = veery.jit(lambda x, s: x * s)
    with veery.default_device(second):
        free = compiled(X, 2.0)
    assert free.devices() == {second} and not free.committed
    compiled(there, 2.0)
    assert compiled(free, 2.0).devices() == {veery.devices()[0]}
    with monkeypatch.context() as patch:
        patch.setattr(JitFunction, "_call", None)
        assert compiled(there, 2.0).devices() == {second}
    assert (there + there).committed and (there + there).committed


def test_settings_of_the_moment_hold_for_known_functions():
    calls = []

    @veery.jit
    def function(x):
        calls.append(x)
        return x + 1

    for _ in range(2):
        function(X)
    with veery.disable_jit():
        function(X)
    assert len(calls) == 2


def test_wrong_arguments_of_known_functions():
    compiled = veery.jit(lambda x, n=0: x + n, static_argnames="n")
    for _ in range(3):
        compiled(1)
    for args, kwargs, error, message in [
        ((2**40,), {}, OverflowError, "out of bounds for int32"),
        (("text",), {}, TypeError, "interpreting argument"),
        ((1,), {"n": [1]}, ValueError, "Non-hashable static arguments"),
        ((1,), {"m": 1}, TypeError, "m"),
    ]:
        with pytest.raises(error, match=message):
            compiled(*args, **kwargs)


SQUARE = np.random.default_rng(0).standard_normal((700, 700)).astype(np.float32) / 26


def scanned(x, w):
    carry, rows = veery.lax.scan(lambda h, r: (jnp.tanh(h @ w + r @ x), h), jnp.zeros((8, 700)), jnp.ones((6, 8, 700)))
    return x * jnp.mean(rows**2), w * 0.5


CHAINS = {
    "scan": veery.jit(scanned),
    "symbolic": veery.jit(lambda x, w: (jnp.tanh(x @ w) + x, w * 0.5 + x), dynamic_shapes={"x": "n, n", "w": "n, n"}),
    "donated": veery.jit(lambda x, w: (0.9 * x + jnp.tanh(x @ w) @ w, 0.9 * w + x), donate_argnums=(0, 1)),
}


@pytest.mark.parametrize("name", CHAINS)
def test_results_in_flight_are_arguments(name):
    """IREE records some programs' work in each call, which it cannot for arguments that are not finished."""
    step = CHAINS[name]
    chained, waited = ((jnp.array(SQUARE), jnp.array(SQUARE)) for _ in range(2))
    for _ in range(8):
        waited = veery.block_until_ready(step(*waited))
    for _ in range(8):
        chained = step(*chained)
    for x, y in zip(chained, waited):
        np.testing.assert_array_equal(x, y)


def test_a_chain_of_large_results_does_not_wait():
    """Twenty results of 36 MB are queued behind a call that ends when all have been."""
    queued = threading.Event()

    def gate(x):
        assert queued.wait(60), "the calls after this one waited for it"
        return x

    wait = veery.jit(lambda x: veery.pure_callback(gate, x, x), compiler_options={"queue": "threaded"})
    add = veery.jit(lambda x, y: x + y)
    x = jnp.ones((3000, 3000))
    one = jnp.float32(1)
    add(x, one).block_until_ready()
    y = add(x, wait(one))
    for _ in range(20):
        y = add(y, one)
    assert not y.is_ready()
    queued.set()
    assert float(y[-1, -1]) == 22


def test_padded_slices_of_a_reversed_constant():
    def rolled(x):
        y = jnp.roll(x[::-1, ::-1], 1, axis=1)
        return (y * jnp.ones((16, 8))[::-1]).sum()

    def joined():
        y = jnp.ones((16, 8))[::-1, ::-1]
        return jnp.pad(y[:, 1:], ((0, 0), (0, 1))) + jnp.pad(y[:, :1], ((0, 0), (7, 0)))

    assert (veery.jit(joined)() == 1).all() and (veery.jit(veery.grad(rolled))(jnp.ones((16, 8))) == 1).all()


class Scaled:
    """An object that is called, with attributes of the names that `jit` has for its own."""

    def __init__(self, factor):
        self.factor = self._call = self.lower = self._fun = factor

    def __call__(self, x):
        return self.factor * x


def test_objects_that_are_functions_keep_their_attributes_apart():
    x = jnp.arange(3.0)
    assert veery.jit(jnp.negative)(x).tolist() == [0, -1, -2]
    assert veery.jit(jnp.add)(x, 1).tolist() == [1, 2, 3]
    scaled = veery.jit(Scaled(2.0))
    assert scaled(x).tolist() == [0, 2, 4] and scaled.factor == 2.0
    assert "stablehlo.multiply" in scaled.lower(x).as_text()


def test_static_positions_from_the_end_of_what_is_passed():
    kinds = []

    def function(a, *rest):
        kinds.append([type(each) is int for each in (a, *rest)])
        return a

    last = veery.jit(function, static_argnums=-1)
    assert [int(last(1, 2, 3)), int(last(1, 2, 3)), int(last(4, 5))] == [1, 1, 4]
    assert kinds == [[False, False, True], [False, True]]
    veery.jit(function, static_argnums=(0, -99))  # no such argument in any call


class Incomparable:
    def __hash__(self):
        return 1

    def __eq__(self, other):
        raise NotImplementedError("never")


def test_what_jit_asks_of_odd_objects():
    chosen = veery.jit(lambda x, how: x + 1, static_argnums=1)
    with pytest.raises(ValueError, match="static arguments should be comparable using __eq__"):
        [chosen(1.0, Incomparable()) for _ in range(2)]

    class Odd(Scaled):
        def __repr__(self):
            raise RuntimeError("never")

    class Unsigned(Scaled):
        @property
        def __signature__(self):
            raise TypeError("none")

    with pytest.raises(ValueError, match="Pass donate_argnums instead of donate_argnames"):
        veery.jit(Unsigned(1.0), donate_argnames="x")
    assert repr(veery.jit(Odd(1.0))) == "<PjitFunction>"


def test_transposed_functions_are_arguments_and_results():
    transposed = veery.jit(lambda x: veery.linear_transpose(lambda x: 2 * x, x))(1.0)
    assert float(veery.jit(lambda f, x: f(x))(transposed, 3.0)[0]) == 6.0
