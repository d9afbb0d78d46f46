"""The way to dispatches: what IREE's own phases make of a module."""

from __future__ import annotations

import ctypes
import platform

import pytest

from veery_lowering.compiler import early, sessions
from veery_lowering.compiler.managers import Managers
from veery_lowering.mlir import ctypes_dl, ir
from veery_lowering.targets import Traits, resolve
from veery_lowering.targets.target import SYNCHRONOUS

pytestmark = pytest.mark.skipif(
    (platform.system(), platform.machine()) != ("Linux", "x86_64"), reason="there it is that machine's alone"
)
MODULES = {
    "elementwise": "%y = stablehlo.add %x, %x : tensor<4x6xf32>",
    "float64": """%d = stablehlo.convert %x : (tensor<4x6xf32>) -> tensor<4x6xf64>
        %s = stablehlo.sine %d : tensor<4x6xf64>
        %y = stablehlo.convert %s : (tensor<4x6xf64>) -> tensor<4x6xf32>""",
    "a product and a constant": """%c = stablehlo.constant dense<"0xBYTES"> : tensor<6x6xf32>
        %t = stablehlo.transpose %c, dims = [1, 0] : (tensor<6x6xf32>) -> tensor<6x6xf32>
        %y = stablehlo.dot_general %x, %t, contracting_dims = [1] x [0] : (tensor<4x6xf32>, tensor<6x6xf32>)
             -> tensor<4x6xf32>""",
    "a loop": """%n = stablehlo.constant dense<3> : tensor<i32>
        %one = stablehlo.constant dense<1> : tensor<i32>
        %i, %y = stablehlo.while(%j = %n, %z = %x) : tensor<i32>, tensor<4x6xf32>
        cond { %more = stablehlo.compare GE, %j, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
               stablehlo.return %more : tensor<i1> }
        do { %k = stablehlo.subtract %j, %one : tensor<i32>
             %w = stablehlo.add %z, %z : tensor<4x6xf32>
             stablehlo.return %k, %w : tensor<i32>, tensor<4x6xf32> }""",
}


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("model", [(), (SYNCHRONOUS,)], ids=["fences", "synchronous"])
def test_the_module_is_that_of_the_phases(name: str, model: tuple[str, ...]) -> None:
    body = MODULES[name].replace("BYTES", "".join(f"{n:08x}" for n in range(36)))
    text = f"func.func @main(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {{ {body}\n return %y : tensor<4x6xf32> }}"
    flags = (*resolve("cpu").attempts(Traits(frozenset(), ()))[0], *model)
    expected, diagnostics = sessions.run_pipeline(text.encode(), flags, "flow")
    assert expected is not None, diagnostics
    sessions.prepare(flags, True)
    ready = sessions._idle[sessions.of_session(flags)][-1]
    with ready.session.context, ir.Location.unknown():
        module = ir.Module.parse(text)
        with sessions._invocation(ready.session, diagnostics) as invocation:
            invocation.import_module(module.operation)
            run = lambda passes: ready.managers.run(module, passes, verifies=True)
            assert early.form_dispatches(module, run, ready.device, flags), diagnostics
        assert str(module) == str(ir.Module.parse(expected))


def test_all_dialects_are_there_from_the_first_pass_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else what passes have collected is collected anew."""
    counts: dict[int, list[int]] = {}

    def run(self: Managers, module: ir.Module, passes: str, verifies: bool) -> bool:
        done = original(self, module, passes, verifies)
        pointer = ctypes_dl.PyCapsule_GetPointer(self._context._CAPIPtr, ctypes_dl.MLIR_PYTHON_CAPSULE_CONTEXT)
        counts.setdefault(id(self), []).append(count(ctypes.c_void_p(pointer)))
        return done

    count = ctypes_dl._dylib.mlirContextGetNumLoadedDialects
    original = Managers.run
    monkeypatch.setattr(Managers, "run", run)
    monkeypatch.setattr(sessions, "_idle", {})
    sessions.prepare(resolve("cpu").attempts(Traits(frozenset(), ()))[0], True)
    assert len(counts) == 2 and all(len(set(each)) == 1 for each in counts.values()), counts
