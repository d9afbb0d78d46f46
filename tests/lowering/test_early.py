"""The way to dispatches: what IREE's own phases make of a module."""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
import pytest
from support.dialects import loaded

import veery
from veery import numpy as jnp
from veery_lowering.compiler import early, isolation, sessions
from veery_lowering.compiler.emptied import write_out
from veery_lowering.compiler.managers import Managers
from veery_lowering.mlir import context, ir
from veery_lowering.targets import Traits, resolve
from veery_lowering.targets.target import SYNCHRONOUS

pytestmark = pytest.mark.skipif(
    (platform.system(), platform.machine()) != ("Linux", "x86_64"), reason="there it is that machine's alone"
)
FLAGS = resolve("cpu").attempts(Traits(frozenset(), ()))[0]
MODULES = {
    "elementwise": "%y = stablehlo.add %x, %x : tensor<4x6xf32>",
    "float64": """%d = stablehlo.convert %x : (tensor<4x6xf32>) -> tensor<4x6xf64>
        %s = stablehlo.sine %d : tensor<4x6xf64>
        %y = stablehlo.convert %s : (tensor<4x6xf64>) -> tensor<4x6xf32>""",
    "a product and a constant": """%c = stablehlo.constant dense<"0xBYTES"> : tensor<6x6xf32>
        %t = stablehlo.transpose %c, dims = [1, 0] : (tensor<6x6xf32>) -> tensor<6x6xf32>
        %y = stablehlo.dot_general %x, %t, contracting_dims = [1] x [0] : (tensor<4x6xf32>, tensor<6x6xf32>)
             -> tensor<4x6xf32>""",
    "a large constant": """%c = stablehlo.constant dense<"0xBYTES"> : tensor<6x6xf32>
        %y = stablehlo.dot_general %x, %c, contracting_dims = [1] x [0] : (tensor<4x6xf32>, tensor<6x6xf32>)
             -> tensor<4x6xf32>""",
    "integers": """%i = stablehlo.convert %x : (tensor<4x6xf32>) -> tensor<4x6xi32>
        %two = stablehlo.constant dense<2> : tensor<4x6xi32>
        %q = stablehlo.divide %i, %two : tensor<4x6xi32>
        %n = stablehlo.iota dim = 1 : tensor<4x6xi32>
        %r = stablehlo.remainder %n, %two : tensor<4x6xi32>
        %s = stablehlo.add %q, %r : tensor<4x6xi32>
        %y = stablehlo.convert %s : (tensor<4x6xi32>) -> tensor<4x6xf32>""",
    "sums": """%zero = stablehlo.constant dense<0.0> : tensor<f32>
        %e = stablehlo.exponential %x : tensor<4x6xf32>
        %s = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1]
             : (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32>
        %b = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<4xf32>) -> tensor<4x6xf32>
        %y = stablehlo.divide %e, %b : tensor<4x6xf32>""",
    "products of transposed, sliced and joined": """%t = stablehlo.transpose %x, dims = [1, 0]
             : (tensor<4x6xf32>) -> tensor<6x4xf32>
        %p = stablehlo.dot_general %t, %x, contracting_dims = [1] x [0] : (tensor<6x4xf32>, tensor<4x6xf32>)
             -> tensor<6x6xf32>
        %s = stablehlo.slice %p [0:2, 0:6] : (tensor<6x6xf32>) -> tensor<2x6xf32>
        %u = stablehlo.slice %x [1:3, 0:6] : (tensor<4x6xf32>) -> tensor<2x6xf32>
        %y = stablehlo.concatenate %s, %u, dim = 0 : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<4x6xf32>""",
    "a batch of products": """%z = stablehlo.reshape %x : (tensor<4x6xf32>) -> tensor<2x2x6xf32>
        %p = stablehlo.dot_general %z, %z, batching_dims = [0] x [0], contracting_dims = [2] x [2]
             : (tensor<2x2x6xf32>, tensor<2x2x6xf32>) -> tensor<2x2x2xf32>
        %q = stablehlo.dot_general %p, %z, batching_dims = [0] x [0], contracting_dims = [2] x [1]
             : (tensor<2x2x2xf32>, tensor<2x2x6xf32>) -> tensor<2x2x6xf32>
        %y = stablehlo.reshape %q : (tensor<2x2x6xf32>) -> tensor<4x6xf32>""",
    "a branch": """%zero = stablehlo.constant dense<0.0> : tensor<f32>
        %s = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0, 1]
             : (tensor<4x6xf32>, tensor<f32>) -> tensor<f32>
        %c = stablehlo.compare GT, %s, %zero : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %y = "stablehlo.if"(%c) ({ %n = stablehlo.negate %x : tensor<4x6xf32>
               stablehlo.return %n : tensor<4x6xf32> }, { stablehlo.return %x : tensor<4x6xf32> })
             : (tensor<i1>) -> tensor<4x6xf32>""",
    "a composed function": """%e = chlo.erf %x : tensor<4x6xf32> -> tensor<4x6xf32>
        %y = stablehlo.add %e, %x : tensor<4x6xf32>""",
    "calls": """%one = call @ones() : () -> tensor<4x6xf32>
        %s = stablehlo.subtract %one, %x : tensor<4x6xf32>
        %z = call @twice(%s) : (tensor<4x6xf32>) -> tensor<4x6xf32>
        %y = call @twice(%z) : (tensor<4x6xf32>) -> tensor<4x6xf32>""",
    "what is empty": """%e = stablehlo.slice %x [0:0, 0:6] : (tensor<4x6xf32>) -> tensor<0x6xf32>
        %n = stablehlo.negate %e : tensor<0x6xf32>
        %y = stablehlo.concatenate %x, %n, dim = 0 : (tensor<4x6xf32>, tensor<0x6xf32>) -> tensor<4x6xf32>""",
    "a loop": """%n = stablehlo.constant dense<3> : tensor<i32>
        %one = stablehlo.constant dense<1> : tensor<i32>
        %i, %y = stablehlo.while(%j = %n, %z = %x) : tensor<i32>, tensor<4x6xf32>
        cond { %more = stablehlo.compare GE, %j, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
               stablehlo.return %more : tensor<i1> }
        do { %k = stablehlo.subtract %j, %one : tensor<i32>
             %w = stablehlo.add %z, %z : tensor<4x6xf32>
             stablehlo.return %k, %w : tensor<i32>, tensor<4x6xf32> }""",
}
FUNCTIONS = """
    func.func private @ones() -> tensor<4x6xf32> {
        %c = stablehlo.constant dense<1.0> : tensor<4x6xf32>
        return %c : tensor<4x6xf32> }
    func.func private @twice(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
        %y = stablehlo.add %x, %x : tensor<4x6xf32>
        return %y : tensor<4x6xf32> }"""


@pytest.fixture(autouse=True)
def sessions_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many programs were compiled before."""
    monkeypatch.setattr(sessions, "_COMPILES_PER_SESSION", 1 << 30)


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("model", [(), (SYNCHRONOUS,)], ids=["fences", "synchronous"])
def test_the_module_is_that_of_the_phases(name: str, model: tuple[str, ...]) -> None:
    body = MODULES[name].replace("BYTES", "".join(f"{n:08x}" for n in range(36)))
    text = f"func.func @main(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {{ {body}\n return %y : tensor<4x6xf32> }}"
    compare(text + FUNCTIONS * ("call @" in body), (*FLAGS, *model))


@pytest.mark.parametrize(
    "fun",
    [
        lambda x: veery.lax.fori_loop(0, 9, lambda i, y: jnp.sin(y) - (1 - y) * i, x),  # a loop
        lambda x: jnp.pad(jnp.stack([x, 1 - x], -1), 1)[::2],  # what is moved
    ],
)
def test_modules_with_kernels_are_those_of_the_phases(fun: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def noted(module: bytes, flags: tuple[str, ...], *, deadline: Any, **options: Any) -> Any:
        given.append((module, flags))
        return sessions.run_pipeline(module, flags, **options)

    given: list[tuple[bytes, tuple[str, ...]]] = []
    monkeypatch.setattr(isolation, "run_pipeline", noted)
    veery.config.update("jax_enable_compilation_cache", False)
    veery.jit(fun).lower(np.ones((10, 8), np.float32)).compile()
    ((module, flags),) = given
    assert b"veery_" in module
    compare(module, flags)


def test_what_has_nothing_to_simplify() -> None:
    begin = "func.func @main(%x: tensor<6xf32>) -> tensor<3x2xf32> {"
    body = "%y = stablehlo.reshape %x : (tensor<6xf32>) -> tensor<3x2xf32>"
    with context():
        for more, settled in (("", True), ("%z = stablehlo.negate %y : tensor<3x2xf32>", False)):
            text = f"{begin} {body}\n {more}\n return %y : tensor<3x2xf32> }}"
            assert early.is_settled(ir.Module.parse(text)) == settled


def compare(text: str | bytes, flags: tuple[str, ...]) -> None:
    """Assert that a module's dispatches are those of IREE's phases."""
    expected, diagnostics = sessions.run_pipeline(text.encode() if isinstance(text, str) else text, flags, "flow")
    assert expected is not None, diagnostics
    sessions.prepare(flags, True)
    ready = sessions._idle[sessions.of_session(flags)][-1]
    with ready.session.context, ir.Location.unknown():
        module = ir.Module.parse(text)
        with sessions._invocation(ready.session, diagnostics) as invocation:
            invocation.import_module(module.operation)
            write_out(module)
            run = lambda passes: ready.managers.run(module, passes, verifies=True)
            assert early.form_dispatches(module, run, ready.device, flags), diagnostics
        assert str(module) == str(ir.Module.parse(expected))


def test_what_is_not_known_to_be_plain_takes_all_passes() -> None:
    add = "%y = stablehlo.add %x, %x : tensor<3xf32>"
    session = sessions._new(FLAGS).session
    session.context.get_dialect_descriptor("stablehlo")
    with session.context, ir.Location.unknown():
        for body, plain in (
            (add, True),
            ("%y = call @f(%x) : (tensor<3xf32>) -> tensor<3xf32>", True),
            ("%y = math.exp %x : tensor<3xf32>", False),
            ("%y = chlo.erf %x : tensor<3xf32> -> tensor<3xf32>", False),
            ('%y = stablehlo.composite "c.d" %x {decomposition = @f} : (tensor<3xf32>) -> tensor<3xf32>', False),
            (
                "%t = stablehlo.tuple %x : tuple<tensor<3xf32>>\n"
                "%y = stablehlo.get_tuple_element %t[0] : (tuple<tensor<3xf32>>) -> tensor<3xf32>",
                False,
            ),
        ):
            functions = [
                f"func.func {name}(%x: tensor<3xf32>) -> tensor<3xf32> {{ {text}\n return %y : tensor<3xf32> }}"
                for name, text in (("@main", body), ("private @f", add))
            ]
            assert early._is_plain_input(ir.Module.parse("\n".join(functions))) is plain


def test_modules_with_globals_or_several_functions_are_not_plain() -> None:
    device = 'util.global private @device = #hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "elf">]>\n'
    function = "util.func public @f{}() {{ util.return }}\n"
    value = "util.global private @x : i32\n"
    initializer = "util.initializer { util.return }\n"
    session = sessions._new(FLAGS).session
    with session.context, ir.Location.unknown():
        for text, plain in (
            (device + function.format(1), True),
            (device + function.format(1) + function.format(2), False),
            (device + function.format(1) + value, False),
            (device + function.format(1) + initializer, False),
        ):
            assert early._is_plain(ir.Module.parse(text)) is plain


def test_all_dialects_are_there_from_the_first_pass_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else what passes have collected is collected anew."""
    counts: dict[int, list[int]] = {}

    def run(self: Managers, module: ir.Module, passes: str, verifies: bool) -> bool:
        done = original(self, module, passes, verifies)
        counts.setdefault(id(self), []).append(loaded(self._context))
        return done

    original = Managers.run
    monkeypatch.setattr(Managers, "run", run)
    monkeypatch.setattr(sessions, "_idle", {})
    sessions.prepare(FLAGS, True)
    assert len(counts) == 2 and all(len(set(each)) == 1 for each in counts.values()), counts
