"""`debug.breakpoint`: the prompt, and what it knows."""

from __future__ import annotations

import io

import pytest

import veery
import veery.numpy as jnp
from veery.lax._breakpoint import BreakpointQuit

pytestmark = pytest.mark.compiler

COMMANDS = """\
p y
p inner["a"] + k
pp (k, name)
p missing
where
list
up
p k
up
down
down
down
nonsense

continue
"""


def function(x, k):
    y = x + 1
    inner, name = {"a": y * 2, "b": {1: y, "z": 0}}, "text"
    inner.pop("b")
    veery.debug.breakpoint(stdin=function.commands, stdout=function.answers)
    return y * inner["a"].sum(), name


def caller(x):
    k = 10
    return function(x, k)[0]


def answers(call, commands):
    function.commands, function.answers = io.StringIO(commands), io.StringIO()
    call()
    veery.effects_barrier()
    return function.answers.getvalue().replace("(jdb) ", "").splitlines()


def test_values_and_frames():
    for call in (caller, veery.jit(caller)):
        found = answers(lambda call=call: call(jnp.arange(2.0)).block_until_ready(), COMMANDS)
        assert found[:5] == [
            "Entering jdb:",
            "Array([1., 2.], dtype=float32)",
            "Array([12., 14.], dtype=float32)",
            "(10, 'text')",
            "*** NameError: name 'missing' is not defined",
        ]
        (here,) = [i for i, line in enumerate(found) if line.startswith("> File")]
        assert "in function" in found[here] and "breakpoint" in found[here + 1] and "in caller" in found[here - 2]
        assert any(line.startswith("->") and "veery.debug.breakpoint" in line for line in found)
        assert "test_breakpoint.py" in found[-7] and found[-7].endswith("caller()")
        assert found[-6] == "10" and found[-1] == "*** There is no command 'nonsense'; see help"


def test_in_loops_and_when_input_ends():
    def total(x):
        def body(i, total):
            veery.debug.breakpoint(stdin=function.commands, stdout=function.answers, num_frames=1, ordered=True)
            return total + i

        return veery.lax.fori_loop(0, 3, body, x)

    found = answers(
        lambda: veery.jit(total)(0).block_until_ready(), "p int(total)\nc\np int(total)\nc\np int(i), int(total)\nup\n"
    )
    answered = [line for line in found if line != "Entering jdb:"]
    assert answered == ["0", "0", "(2, 1)", "*** There is no such function"]


def test_the_program_can_be_stopped():
    with pytest.raises(BreakpointQuit, match="stopped at a breakpoint"):
        answers(lambda: veery.jit(lambda x: caller(x))(jnp.arange(2.0)).block_until_ready(), "quit\n")
    with pytest.raises(ValueError, match="must be 'cli'"):
        veery.debug.breakpoint(backend="web")
