"""`jax_debug_key_reuse`: which programs use a key twice, as JAX 0.10.2 says of them."""

import pytest

import veery
import veery.numpy as jnp
from veery import lax, random
from veery.errors import KeyReuseError

pytestmark = pytest.mark.compiler


@pytest.fixture(autouse=True)
def looked_for():
    with veery.debug_key_reuse(True):
        yield


def split_carry(key, _):
    key, one = random.split(key)
    return key, random.normal(one)


USED_TWICE = {
    "two samples": (lambda k: (random.normal(k), random.normal(k)), "Previously-consumed key passed to jit-compiled"),
    "a sample after a split": (lambda k: (random.split(k), random.normal(k)), "Previously-consumed key"),
    "within a function": (veery.jit(lambda k: random.normal(k) + random.uniform(k)), "In jit, argument 0 is already"),
    "an element": (lambda k: [random.split(k)[0] for _ in range(2)], "Previously-consumed key"),
    "an element of one array": (lambda k: [ks[0] for ks in [random.split(k)] * 2], "passed to slice at index 0"),
    "an element of a range": (
        veery.jit(lambda k: [(ks[:2], ks[1]) for ks in [random.split(k, 3)]]), "In slice, argument 0 is already",
    ),
    "a constant of a scan": (
        lambda k: lax.scan(lambda c, _: (c + random.normal(k), None), 0.0, length=2), "key constants are repeatedly",
    ),
    "a carry that stays": (
        lambda k: lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + random.uniform(c[1]), c[1]), (0.0, k)),
        "while_loop body function leads to key reuse",
    ),
    "after a branch": (
        lambda k: (lax.cond(True, lambda k: random.normal(k), lambda k: 1.0, k), random.normal(k)), "Previously",
    ),
    "what a function closes over": (lambda k: [f() for f in [veery.jit(lambda: random.normal(k))] * 2], "Previously"),
    "the same under another name": (lambda k: (random.normal(k), random.normal(veery.jit(jnp.array)(k))), "Previously"),
}  # fmt: skip

USED_ONCE = {
    "two keys": lambda k: [random.normal(one) for one in random.split(k)],
    "folds": lambda k: (random.normal(random.fold_in(k, 1)), random.normal(random.fold_in(k, 2)), random.normal(k)),
    "a clone": lambda k: (random.normal(random.clone(k)), random.normal(k)),
    "words": lambda k: (random.key_data(k), random.normal(k)),
    "elements": veery.jit(lambda k: [random.normal(ks[0]) + random.normal(ks[1]) for ks in [random.split(k)]]),
    "a carry": lambda k: lax.scan(split_carry, k, length=2),
    "keys that a scan takes": lambda k: lax.scan(lambda c, k: (c + random.normal(k), None), 0.0, random.split(k)),
    "either branch": lambda k: lax.cond(True, lambda k: random.normal(k), lambda k: random.uniform(k), k),
    "a batch": lambda k: veery.vmap(random.normal)(random.split(k)),
    "a derivative": lambda k: veery.jit(veery.grad(veery.checkpoint(lambda x: jnp.sin(x * random.normal(k)))))(1.0),
    "raw keys": lambda k: [random.normal(random.PRNGKey(0)) for _ in range(2)],
    "written": lambda k: [random.normal(one) for one in random.split(k).at[0].set(random.key(1))],
}


@pytest.mark.parametrize("case", USED_TWICE)
def test_a_key_that_is_used_twice_is_refused(case):
    program, message = USED_TWICE[case]
    with pytest.raises(KeyReuseError, match=message):
        program(random.key(0))


@pytest.mark.parametrize("case", USED_ONCE)
def test_a_key_that_is_used_once_is_not(case):
    USED_ONCE[case](random.key(0))


@pytest.mark.parametrize(
    ("sampler", "arguments"),
    [("uniform", ()), ("permutation", (5,)), ("gamma", (2.0,)), ("poisson", (3.0,)), ("binomial", (3.0, 0.5))],
)
def test_each_sampler_uses_its_key_once(sampler, arguments):
    """Also where it draws by two methods, of which each element takes one."""
    key = random.key(0)
    sample = getattr(random, sampler)
    sample(key, *arguments)
    with pytest.raises(KeyReuseError):
        sample(key, *arguments)


@pytest.mark.parametrize("implementation", ["rbg", "threefry2x32"])
def test_bits_of_other_generators_use_the_key_too(implementation):
    with veery.threefry_partitionable(False):
        key = random.key(0, impl=implementation)
        random.bits(key)
        with pytest.raises(KeyReuseError, match="The key was first used \\(at .*test_key_reuse.py"):
            random.bits(key)


def test_nothing_is_refused_when_it_is_not_asked_for():
    key = random.key(0)
    random.normal(key)
    with veery.debug_key_reuse(False):
        random.normal(key)
