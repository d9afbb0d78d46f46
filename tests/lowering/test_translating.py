"""Passes of dispatches as text: that they are those which IREE chooses itself."""

from __future__ import annotations

import platform
import re
from types import SimpleNamespace
from typing import Any

import pytest
from lowering.test_machine_code import in_this_process
from lowering.test_short import some

import veery
from veery import lax, numpy as jnp
from veery_lowering.compiler import isolation, short, translating

pytestmark = pytest.mark.skipif(
    (platform.system(), platform.machine()) != ("Linux", "x86_64"), reason="there it is that machine's alone"
)


def convolved(x: Any, w: Any) -> Any:
    return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")).T


# Programs by the kinds of tiles that IREE chooses for some of their dispatches.
PROGRAMS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "Default": (lambda x: lax.fori_loop(0, 10, lambda i, y: jnp.sin(y) + i, x), (some(7),)),
    "DoubleTilingExpert": (
        lambda x, y: (jnp.tanh(x @ y), x.sum(0), x.max(1), veery.nn.softmax(x), x + 1, x.T[::2] * 2, jnp.cumsum(x)),
        (some(33, 57), some(57, 64)),
    ),
    "BufferOpsTileAndVectorize": (lambda x, w: convolved(x, w), (some(2, 9, 9, 3), some(3, 3, 3, 4))),
    "ConvTileAndDecomposeExpert": (lambda x, w: convolved(x, w), (some(2, 9, 9, 3), some(3, 3, 3, 4))),
    "Mmt4dTilingExpert": (lambda x, y: jnp.tanh(x @ y) + 1, (some(450, 500), some(500, 450))),
    "DataTiling": (lambda x, y: x @ y, (some(3, 410, 500), some(3, 500, 430))),
}


def translated(name: str, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], set[str]]:
    """The dispatches of a program in LLVM's dialect, and the kinds of their tiles."""
    found: list[str] = []
    kinds: set[str] = set()

    def noted(module: Any, *options: Any) -> bool:
        kinds.update(translating._KIND.findall(str(module)))
        done = translating.translate(module, *options)
        found.extend(str(op) for op in module.body.operations if op.operation.name == "hal.executable")
        return done

    fun, operands = PROGRAMS[name]
    with monkeypatch.context() as patch:
        patch.setattr(isolation, "run_pipeline", in_this_process)
        patch.setattr(short, "translate", noted)
        patch.setattr(short, "are_plain", lambda module: False)  # also kernels, of which no tiles need be chosen
        veery.config.update("jax_enable_compilation_cache", False)
        program = veery.jit(lambda *xs: fun(*xs)).lower(*operands).compile()
    assert program._program.metadata["pipeline"] == "short"
    return [without_names(text) for text in found], kinds


def without_names(executable: str) -> str:
    """An executable's lines without the names of values, in any order: the order of its constants tells nothing."""
    text = re.sub(r'static_library_output = "[^"]*"', "", executable)
    return "\n".join(sorted(re.sub(r"%\w+", "%", line) for line in text.splitlines()))


def test_all_kinds_are_tried() -> None:
    assert set(PROGRAMS) == set(translating._KINDS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_they_make_what_the_passes_do_that_iree_chooses(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, kinds = translated(name, monkeypatch)
    assert name in kinds
    given: list[Any] = []
    monkeypatch.setattr(translating, "passes_of", lambda *function: given.append(function))
    theirs, _ = translated(name, monkeypatch)
    assert given and ours == theirs


class Operation:
    """An operation as the bindings give it, with what is in its only block."""

    def __init__(self, name: str, kind: str, inside: list[Operation]) -> None:
        self.name, self.operation = name, self
        self.attributes: dict[str, str] = {}
        if kind:
            tiles = f"#iree_codegen.translation_info<pipeline = #iree_cpu.pipeline<{kind}>>"
            self.attributes["translation_info"] = tiles
        self.regions = [SimpleNamespace(blocks=[SimpleNamespace(operations=inside)])]


def test_what_is_not_known_is_left_to_iree() -> None:
    for kind in ("Another", ""):
        assert translating.passes_of(Operation("func.func", kind, []), True) is None


def test_paddings_have_their_passes() -> None:
    """Which others are spared: that the code is the same is shown above."""
    padded, plain = (
        translating.passes_of(Operation("func.func", "Default", [Operation(name, "", [])]), True)
        for name in ("tensor.pad", "tensor.empty")
    )
    assert padded is not None and translating._PADS in padded
    assert plain == padded.replace(f",{translating._PADS}", "") != padded
