"""Results where donated arguments were: they are those of a program that gives nothing away, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import veery
import veery_runtime
from veery import lax, numpy as jnp
from veery_lowering.kernels import fuse_elements
from veery_lowering.mlir import IN_PLACE, context, ir, operations
from veery_lowering.passes.simplification import inlined
from veery_lowering.passes.stream.in_place import place_results

Arrays = tuple[Any, ...]


def adam(p: Any, m: Any, v: Any, g: Any) -> Arrays:
    m, v = m + (g - m) * 0.1, v + (g * g - v) * 0.001
    return p - 0.01 * m / (jnp.sqrt(v) + 1e-7), m, v


def step(p: Any, m: Any, v: Any, x: Any, d: Any) -> Arrays:
    return adam(p, m, v, x.T @ d)


def step_and_gradient(p: Any, m: Any, v: Any, x: Any, d: Any) -> Arrays:
    """What reads p beside the step of it runs at the same time where nothing is given away."""
    return *adam(p, m, v, x.T @ d), d @ p.T


def clipped(p: Any, m: Any, v: Any, x: Any, d: Any) -> Arrays:
    g = x.T @ d
    return adam(p, m, v, g * jnp.minimum(1, 1 / jnp.sqrt((g * g).sum())))


def two_steps(p: Any, m: Any, v: Any, x: Any, d: Any) -> Arrays:
    return adam(*adam(p, m, v, x.T @ d), x.T @ (d * 0.5))


def rows(p: Any, m: Any, v: Any, x: Any, d: Any) -> Arrays:
    return (p - p.mean(1, keepdims=True)) * jnp.tanh(m), veery.nn.softmax(m, axis=1), v + p


def columns(p: Any, m: Any, v: Any, x: Any, d: Any) -> Arrays:
    return p - p.mean(0), m / (1 + m.sum(0)), v + p


def long(p: Any, m: Any, v: Any, x: Any, d: Any) -> Arrays:
    for _ in range(3):
        p, m, v = jnp.sin(p) + v * m, jnp.exp(-m * m) - p, jnp.cos(v) * p
    return p, m, v


def exchanged(p: Any, m: Any, v: Any, x: Any, d: Any) -> Arrays:
    return m + 1, v * 2, p - m


def moved(p: Any, m: Any, v: Any, x: Any, d: Any) -> Arrays:
    return p[:, ::-1] + 1, m[::-1], v - m


def summed(p: Any, m: Any, v: Any, x: Any, d: Any) -> Arrays:
    return p * 0.9 + x.T @ d * 0.1, m - (p * p).sum(), v + m.max()


def read_later(p: Any, m: Any, v: Any, x: Any, d: Any) -> Arrays:
    q = p - x.T @ d * 0.1
    return q, m + 1, v * 2, (d @ p.T).sum(), (d @ q.T).sum()


def looped(p: Any, m: Any, v: Any, x: Any, d: Any) -> Arrays:
    p, sums = lax.scan(lambda c, _: (jnp.tanh(c) * 0.9 + v, c.sum()), p, None, length=3)
    return p, m + sums[0], v + 1


# How many of three arguments are overwritten, at least.
PROGRAMS: dict[Callable[..., Arrays], int] = {
    step: 3,
    step_and_gradient: 3,
    clipped: 3,
    two_steps: 3,
    rows: 3,
    columns: 2,
    long: 3,
    exchanged: 3,
    moved: 1,
    summed: 3,
    read_later: 2,
    looped: 1,
}
# Whole tiles and parts of them, of rows and columns; sums in blocks of terms; a single row.
SHAPES = [(256, 256, 16), (300, 131, 59), (131, 300, 8), (1031, 129, 5), (129, 130, 1500), (1, 40_000, 3)]


def arguments(rows: int, columns: int, batch: int, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = [(rows, columns)] * 3 + [(batch, rows), (batch, columns)]
    p, m, v, x, d = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    return [p, m, abs(v), x, d]


def overwritten(donating: Any, args: list[np.ndarray]) -> list[int]:
    types = [veery.ShapeDtypeStruct(x.shape, x.dtype) for x in args]
    metadata = donating.lower(*types).compile()._program.metadata
    assert metadata["recorded"] == "once"
    return [int(i) for i in metadata["overwritten"].split()]


def agree(fun: Callable[..., Arrays], args: list[np.ndarray], calls: int = 2) -> Any:
    """The function that gives its first three arguments away, if it gives what it does where it keeps them."""
    keeping, donating = veery.jit(fun), veery.jit(fun, donate_argnums=(0, 1, 2))
    kept: Any = args[:3]
    given: Any = [jnp.array(x, copy=True) for x in kept]
    for _ in range(calls):
        expected, found = keeping(*kept[:3], *args[3:]), donating(*given[:3], *args[3:])
        for a, b in zip(expected, found, strict=True):
            np.testing.assert_array_equal(a, b)
        kept, given = expected, found
    return donating


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("fun", PROGRAMS, ids=lambda fun: fun.__name__)
def test_results_in_the_places_of_arguments(fun: Callable[..., Arrays], shape: tuple[int, int, int]) -> None:
    args = arguments(*shape)
    donating = agree(fun, args)
    if shape[0] > 1:  # of a single row other operations are left
        assert len(overwritten(donating, args)) >= PROGRAMS[fun]


@st.composite
def programs(draw: st.DrawFn) -> Callable[..., Arrays]:
    """A few operations, each of values before it, and three results."""
    unary = [
        jnp.tanh,
        lambda a: a * 2,
        lambda a: a[::-1],
        lambda a: a - a.mean(1, keepdims=True),
        lambda a: a - a.max(0),
    ]
    binary = [jnp.add, jnp.multiply, jnp.minimum, lambda a, b: a + b.sum(), lambda a, b: jnp.where(a > b, a, b)]
    steps = draw(
        st.lists(st.tuples(st.integers(0, 11), st.integers(0, 40), st.integers(0, 40)), min_size=2, max_size=9)
    )
    ends = draw(st.tuples(*[st.integers(0, 40)] * 3))

    def program(p: Any, m: Any, v: Any, x: Any, d: Any) -> Arrays:
        values = [p, m, v]
        for kind, i, j in steps:
            a, b = values[-1 - i % len(values)], values[-1 - j % len(values)]
            if kind < 5:
                values.append(unary[kind](a))
            elif kind < 10:
                values.append(binary[kind - 5](a, b))
            else:
                values.append((x.T @ d if kind == 10 else x.T @ (x @ a)) * 0.01 + b)
        return tuple(values[-1 - i % len(values)] for i in ends)

    return program


@settings(max_examples=25, deadline=None)
@given(programs(), st.sampled_from([(130, 131), (257, 64), (96, 200)]))
@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")
def test_programs_that_were_drawn(program: Callable[..., Arrays], shape: tuple[int, int]) -> None:
    agree(program, arguments(*shape, 7, seed=shape[0]))


def test_memory_stays_the_same() -> None:
    args = arguments(300, 131, 59)
    donating, places = veery.jit(step, donate_argnums=(0, 1, 2)), []
    state: Any = [jnp.array(x, copy=True) for x in args[:3]]
    for _ in range(6):
        state = donating(*state, *args[3:])
        places.append(tuple(veery_runtime.sharing.extent(x._buffer._ref, x._buffer._spec) for x in state))
    assert len(set(places[1:])) == 1


def test_steps_are_submitted_before_those_before_them_end() -> None:
    """IREE records commands in each call that overwrite what it decided on itself; those wait for their arguments."""
    args = arguments(300, 131, 59)
    executable = veery.jit(step, donate_argnums=(0, 1, 2)).lower(*args).compile()._executable
    assert executable.overwritten == (0, 1, 2) and not executable.needs_ready


def test_what_is_small_is_left_alone() -> None:
    args = arguments(16, 16, 3)
    assert overwritten(agree(step, args), args) == []


@pytest.mark.parametrize(("side", "given", "says"), [(128, True, True), (127, True, False), (128, False, False)])
def test_kernels_say_what_may_be_in_place_where_it_may_come_to_that(side: int, given: bool, says: bool) -> None:
    x = np.ones((side, side), np.float32)
    found: list[bool] = []

    def change(module: Any) -> None:
        assert fuse_elements(module, donated=(given,)) == 1
        found.append(any(IN_PLACE in op.attributes for op in operations(module)))

    inlined(veery.jit(lambda x: jnp.tanh(x) * 2).lower(x)._lowered.module, change)
    assert found == [says]


def commands(steps: str, given: str = "0", result: str = "%sub", uses: str = "") -> str:
    """A program of an argument and another one of 128 bytes, and a result among two."""
    memory = "!stream.resource<external>"
    return f"""
module attributes {{veery.donated = array<i64: {given}>}} {{
  util.func public @main(%given: !hal.buffer_view, %other: !hal.buffer_view, %fence: !hal.fence) -> !hal.buffer_view {{
    %c0 = arith.constant 0 : index
    %c64 = arith.constant 64 : index
    %c128 = arith.constant 128 : index
    %c192 = arith.constant 192 : index
    %c1_i32 = arith.constant 1 : i32
    %x = stream.tensor.import %given : !hal.buffer_view -> tensor<32xf32> in {memory}{{%c128}}
    %y = stream.tensor.import %other : !hal.buffer_view -> tensor<32xf32> in {memory}{{%c128}}
    %until = stream.timepoint.import %fence : (!hal.fence) => !stream.timepoint
    %all, %there = stream.resource.alloca uninitialized await(%until) => {memory}{{%c192}} => !stream.timepoint
    %sub = stream.resource.subview %all[%c64] : {memory}{{%c192}} -> {memory}{{%c128}}
    %rest = stream.resource.subview %all[%c0] : {memory}{{%c192}} -> {memory}{{%c64}}
    %done = stream.cmd.execute await(%there) => with(%x as %a: {memory}{{%c128}}, %y as %b: {memory}{{%c128}},
        %all as %r: {memory}{{%c192}}) {{
      {steps}
    }} => !stream.timepoint
    %ready = stream.timepoint.await %done => {memory}{{%c64}}
    {uses}
    %result = stream.tensor.export {result} : tensor<32xf32> in {memory}{{%c128}} -> !hal.buffer_view
    %more = stream.tensor.export %rest : tensor<16xf32> in {memory}{{%c64}} -> !hal.buffer_view
    util.return %result : !hal.buffer_view
  }}
}}
""".replace("    %ready = stream.timepoint.await %done => !stream.resource<external>{%c64}\n", "")


def copy(source: str, target: str, at: str = "%c64", size: str = "%c128") -> str:
    length = "%c192" if target == "%r" else "%c128"
    return (
        f"stream.cmd.copy {source}[%c0], {target}[{at}], {size} : "
        f"!stream.resource<external>{{%c128}} -> !stream.resource<external>{{{length}}}"
    )


FILL = "stream.cmd.fill %c1_i32, %r[%c64 for %c128] : i32 -> !stream.resource<external>{%c192}"
REST = "stream.cmd.fill %c1_i32, %r[%c0 for %c64] : i32 -> !stream.resource<external>{%c192}"


def placed(text: str) -> tuple[list[int], str]:
    with context():
        module = ir.Module.parse(text)
        found = place_results(module, smallest=0)
        assert module.operation.verify()
        return found, str(module)


def together(*steps: str) -> str:
    return "stream.cmd.concurrent {\n" + "\n".join(steps) + "\n}"


def test_a_result_is_written_behind_what_reads_the_argument() -> None:
    found, text = placed(commands(f"{copy('%a', '%r', '%c0', '%c64')}\n{FILL}"))
    assert found == [0] and text.index("cmd.copy") < text.index("cmd.fill")
    assert "{%c192}" not in text and "alloca uninitialized await(%2) => !stream.resource<external>{%c64" in text


def test_it_runs_later_for_that() -> None:
    found, text = placed(commands(f"{together(FILL, copy('%a', '%r', '%c0', '%c64'))}"))
    assert found == [0] and text.index("cmd.copy") < text.index("cmd.fill")
    found, text = placed(commands(f"{FILL}\n{copy('%a', '%r', '%c0', '%c64')}\n{copy('%b', '%r', '%c0', '%c64')}"))
    assert found == [0] and text.index("cmd.copy") < text.index("cmd.concurrent") < text.index("cmd.fill")


@pytest.mark.parametrize(
    "program",
    [
        commands(f"{copy('%a', '%r')}\n{REST}"),  # reads it, and it is not known in which order
        commands(f"{FILL}\n{copy('%a', '%r')}\n{REST}"),  # written twice
        commands(f"{FILL}\n{FILL.replace('c128]', 'c64]')}\n{copy('%a', '%r', '%c0', '%c64')}"),
        commands(f"{FILL}\n{REST}", uses="%again = stream.tensor.export %x : tensor<32xf32> in"
                 " !stream.resource<external>{%c128} -> !hal.buffer_view"),
        commands(f"{FILL}\n{REST}", uses="%same = util.optimization_barrier %given : !hal.buffer_view"),
        commands(f"{copy('%b', '%a', '%c0')}\n{FILL}\n{REST}"),  # something else is written there
    ],
)  # fmt: skip
def test_where_it_may_not(program: str) -> None:
    found, text = placed(program)
    assert found == [] and "{%c192}" in text


def test_nothing_is_allocated_where_all_is_in_place() -> None:
    text = commands(f"{copy('%a', '%b', '%c0')}\n{FILL}", given="0").replace("%rest = ", "%rest_ = ")
    lines = [line for line in text.splitlines() if "%rest" not in line]
    found, text = placed("\n".join(lines))
    assert found == [0] and "alloca" not in text
