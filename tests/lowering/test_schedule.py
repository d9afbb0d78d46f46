"""The commands of programs that are calls of kernels: in which order they run, and where their values lie."""

from __future__ import annotations

import itertools
import platform
import re
from typing import Any

import numpy as np
import pytest

import veery
from veery import numpy as jnp
from veery_lowering.compiler import isolation, sessions
from veery_lowering.compiler.schedule import _gap, _place, _Value, write_commands
from veery_lowering.mlir import context, ir
from veery_lowering.passes.stream.arguments import donated_arguments, tell_donated
from veery_lowering.targets import Traits, resolve

RNG = np.random.default_rng(0)
FLAGS = resolve("cpu").attempts(Traits(frozenset(), ()))[0]
DEVICE = '#hal.device.target<"local"> : !hal.device'
HERE = pytest.mark.skipif(
    (platform.system(), platform.machine()) != ("Linux", "x86_64"), reason="the short pipeline is for that machine"
)


def source(name: str, taken: int, made: int) -> str:
    """The executable of a kernel, without code."""
    bindings = ", ".join(["#hal.pipeline.binding<storage_buffer, Indirect>"] * (taken + made))
    return f"""
hal.executable.source private @{name}_code {{
  hal.executable.export public @{name}_run ordinal(0) layout(#hal.pipeline.layout<bindings = [{bindings}]>)
      count(%device: !hal.device) -> (index, index, index) {{
    %one = arith.constant 1 : index
    hal.return %one, %one, %one : index, index, index
  }}
  builtin.module {{}}
}}"""


def kernel(name: str, taken: int = 1, made: int = 1, kept: int | None = None, array: str = "tensor<100xf32>") -> str:
    """A kernel, and the function that calls it, which gives the first `kept` of what it makes."""
    kept = made if kept is None else kept
    names, types = ", ".join(f"%a{k}" for k in range(taken)), ", ".join([array] * taken)
    given = ", ".join(f"%a{k}: {array}" for k in range(taken))
    results, some = (", ".join([array] * n) for n in (made, kept))
    returned = ", ".join(f"%r#{k}" for k in range(kept))
    return f"""{source(name, taken, made)}
func.func private @{name}({given}) -> ({some}) {{
  %r:{made} = flow.dispatch @{name}_code::@{name}_run({names}) : ({types}) -> ({results})
  return {returned} : {some}
}}"""


def called_once(array: str) -> str:
    """A program that gives what a kernel makes of its argument."""
    main = "func.func @main(%x: A) -> A { %1 = call @f(%x) : (A) -> A\n return %1 : A }".replace("A", array)
    return main + kernel("f", array=array)


def written(text: str, donated: list[bool] | None = None) -> str | None:
    """What becomes of a module, as text; None where it is left to IREE."""
    with context() as current:
        current.load_all_available_dialects()
        module = ir.Module.parse(text)
        if donated:
            tell_donated(module.operation, donated)
        found = write_commands(module, DEVICE)
        if found is None:
            return None
        found.operation.verify()
        assert donated_arguments(found) == [k for k, given in enumerate(donated or []) if given]
        return str(found)


def steps(text: str) -> list[list[str]]:
    """The kernels that are called, those that run at the same time together."""
    found: list[list[str]] = []
    end = ""  # the line at which what runs at the same time ends
    for line in text.splitlines():
        if line.endswith("stream.cmd.concurrent {"):
            end = line.replace("stream.cmd.concurrent {", "}")
            found.append([])
        elif match := re.search(r"stream.cmd.dispatch @(\w+)_code::", line):
            found += [[]] * (not end)
            found[-1] = [*found[-1], match[1]]
        elif line == end:
            end = ""
    return found


CHAIN = """
func.func @main(%x: tensor<10x10xf32>) -> tensor<100xf32> {
  %0 = stablehlo.reshape %x : (tensor<10x10xf32>) -> tensor<100xf32>
  %1 = call @f(%0) : (tensor<100xf32>) -> tensor<100xf32>
  %2 = call @f(%1) : (tensor<100xf32>) -> tensor<100xf32>
  %3 = call @f(%2) : (tensor<100xf32>) -> tensor<100xf32>
  %4 = call @f(%3) : (tensor<100xf32>) -> tensor<100xf32>
  return %4 : tensor<100xf32>
}"""


def test_a_chain_has_memory_for_two_values() -> None:
    text = written(CHAIN + kernel("f"))
    assert text is not None and steps(text) == [["f"]] * 4
    assert "!stream.resource<transient>{%c896}" in text  # of 400 bytes each, at multiples of 64
    assert text.count("wo %") == 4 and "tensor<10x10xf32> in" in text


def test_what_nobody_waits_for_runs_last() -> None:
    text = written(
        """
func.func @main(%x: tensor<100xf32>, %y: tensor<100xf32>) -> (tensor<100xf32>, tensor<100xf32>, tensor<100xf32>) {
  %1 = call @late(%y) : (tensor<100xf32>) -> tensor<100xf32>
  %2 = call @first(%x) : (tensor<100xf32>) -> tensor<100xf32>
  %3 = call @unread(%x) : (tensor<100xf32>) -> tensor<100xf32>
  %4 = call @second(%2, %y) : (tensor<100xf32>, tensor<100xf32>) -> tensor<100xf32>
  return %2, %4, %1 : tensor<100xf32>, tensor<100xf32>, tensor<100xf32>
}"""
        + kernel("late") + kernel("first") + kernel("unread") + kernel("second", 2),
        [False, True],
    )  # fmt: skip
    assert text is not None and steps(text) == [["first"], ["late", "second"]]
    assert "transient" not in text and "!stream.resource<external>{%c1296}" in text  # 448, 448 and 400 bytes
    assert text.count("stream.resource.subview") == text.count("stream.tensor.export") == 3


def test_results_that_a_kernel_keeps_for_itself_have_memory() -> None:
    main = """
func.func @main(%x: tensor<100xf32>) -> tensor<100xf32> {
  %1 = call @f(%x) : (tensor<100xf32>) -> tensor<100xf32>
  return %1 : tensor<100xf32>
}"""
    text = written(main + kernel("f", made=2, kept=1))
    assert text is not None and "!stream.resource<transient>{%c448}" in text and text.count("wo %") == 2


LEFT = {
    "an argument is returned": ("%1 = call @f(%x) : (A) -> A", "%x, %1"),
    "a value is returned twice": ("%1 = call @f(%x) : (A) -> A", "%1, %1"),
    "a reshaped argument is returned": ("%1 = stablehlo.reshape %x : (A) -> A", "%1"),
    "a constant is read": ("%0 = stablehlo.constant dense<1.0> : A\n %1 = call @f(%0) : (A) -> A", "%1"),
    "nothing is called": ("", ""),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left_to_iree(name: str) -> None:
    body, results = LEFT[name]
    types = ", ".join(["A"] * len(results.split()))
    end = f"return {results} : {types}" if results else "return"
    main = f"func.func @main(%x: A) -> ({types}) {{ {body}\n {end} }}".replace("A", "tensor<100xf32>")
    assert written(main + kernel("f")) is None


def test_a_kernel_that_is_told_what_its_function_computes_is_left_to_iree() -> None:
    """But for where a table of routines is, which is computed in one way."""
    told = kernel("f").replace("  %r", "  %n = arith.constant 1 : i32\n  %r")
    told = told.replace("_run(%a0) : (", "_run(%n, %a0) : (i32, ")
    main = "func.func @main(%x: A) -> A { %1 = call @f(%x) : (A) -> A\n return %1 : A }".replace("A", "tensor<100xf32>")
    assert written(main + kernel("f")) is not None
    assert written(main + told) is None


@pytest.mark.parametrize("array", ["tensor<0xf32>", "tensor<3xi1>", "tensor<3xf8E5M2>", "tensor<3xi4>"])
def test_arrays_that_are_left_to_iree(array: str) -> None:
    assert written(called_once(array)) is None


def test_unknown_sizes_are_left_to_iree() -> None:
    assert written("func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }") is None


def test_unsigned_integers_are_those_without_signs() -> None:
    signed, unsigned = "tensor<3xi32>", "tensor<3xui32>"
    main = f"""
func.func @main(%x: {unsigned}) -> {unsigned} {{
  %0 = stablehlo.bitcast_convert %x : ({unsigned}) -> {signed}
  %1 = call @f(%0) : ({signed}) -> {signed}
  %2 = stablehlo.bitcast_convert %1 : ({signed}) -> {unsigned}
  return %2 : {unsigned}
}}"""
    text = written(main + kernel("f", array=signed))
    assert text is not None and text.count(f": {signed} in") == 1 and "ui32" not in text


@pytest.mark.parametrize("array", ["tensor<f32>", "tensor<3x5xcomplex<f64>>", "tensor<7xbf16>", "tensor<2x2x2xi8>"])
def test_kinds_of_arrays(array: str) -> None:
    text = written(called_once(array))
    assert text is not None and text.count(f": {array} in") == 1 and f"-> {array} in" in text


def test_values_that_are_needed_together_lie_apart() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        values = [_Value(int(n)) for n in rng.integers(1, 2000, size=12)]
        for value in values:
            value.made, value.read = sorted(map(int, rng.integers(0, 8, size=2)))
        total = _place(values)
        for a, b in itertools.combinations(values, 2):
            if a.made <= b.read and b.made <= a.read:
                assert a.start + a.nbytes <= b.start or b.start + b.nbytes <= a.start
        assert all(value.start % 64 == 0 and value.start + value.nbytes <= total for value in values)
        busy = (sum(-(-v.nbytes // 64) * 64 for v in values if v.made <= step <= v.read) for step in range(8))
        most = max(busy)
        assert most <= total <= 1.3 * most  # without sharing it is 1.4 times that in the mean


def test_the_smallest_gap_is_taken() -> None:
    def value(start: int, nbytes: int) -> _Value:
        return _Value(nbytes, start=start)

    others = [value(0, 64), value(320, 64), value(512, 64)]  # gaps of 256 and 128 bytes
    assert [_gap(others, n) for n in (64, 128, 192, 256, 320)] == [384, 384, 64, 64, 576]
    assert _gap([], 64) == 0


def some(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def loss(w: Any, x: Any, y: Any) -> Any:
    for a, b in w[:-1]:
        x = veery.nn.relu(x @ a + b)
    a, b = w[-1]
    return -(veery.nn.log_softmax(x @ a + b) * y).sum(-1).mean()


def step(w: Any, x: Any, y: Any) -> Any:
    return veery.tree_util.tree_map(lambda p, g: p - 0.125 * g, w, veery.grad(loss)(w, x, y))


WIDE = [(some(784, 256), some(256)), (some(256, 256), some(256)), (some(256, 10), some(10))]
PROGRAMS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "a step of training": (step, (WIDE, some(128, 784), some(128, 10))),
    "products in a row": (lambda x: (x @ x / 9) @ (x @ x.T) @ x, (some(150, 150),)),
    "several results": (lambda x: (jnp.tanh(x @ x), x @ x.T, (x @ x).sum(0), x + 1), (some(130, 130),)),
    "routines of LAPACK": (
        lambda a, b: (jnp.linalg.cholesky(a), jnp.linalg.solve(a, b), jnp.linalg.qr(a), jnp.linalg.eigh(a)[0]),
        (some(30, 30) + 30 * np.eye(30, dtype=np.float32), some(30)),
    ),
    "inverses": (jnp.linalg.inv, (some(40, 40),)),
    "unsigned integers": (lambda k: veery.random.normal(k, (10,)), (np.array([3, 1], np.uint32),)),
    "kinds of numbers": (
        lambda x, b: ((x.astype(jnp.float16) * 2).sum(), x.astype(jnp.bfloat16) + 1, b + 1), (some(50), np.arange(9))
    ),
}  # fmt: skip


@HERE
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_those_of_irees_passes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What IREE plans gives the same bits, of the same kernels."""

    def planned(module: bytes, flags: tuple[str, ...], *, deadline: Any, **options: Any) -> Any:
        return sessions.run_pipeline(module, flags, **options)

    def counted(*given: Any) -> Any:
        made.append(write_commands(*given))
        return made[-1]

    made: list[Any] = []
    monkeypatch.setattr(isolation, "run_pipeline", planned)
    veery.config.update("jax_enable_compilation_cache", False)
    fun, operands = PROGRAMS[name]
    found = []
    for write in (counted, lambda *_: None):
        monkeypatch.setattr(sessions, "write_commands", write)
        program = veery.jit(lambda *xs: fun(*xs)).lower(*operands).compile()
        found.append(veery.tree_util.tree_leaves(program(*operands)))
    assert made and all(each is not None for each in made)
    for one, other in zip(*found, strict=True):
        assert one.dtype == other.dtype and np.asarray(one).tobytes() == np.asarray(other).tobytes()
