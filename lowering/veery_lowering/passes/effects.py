"""What each pass did to a program."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from veery_lowering.mlir import context, ir, operations
from veery_lowering.passes import pipeline as passes
from veery_lowering.passes.pipeline import PASSES, Pass, Stage


@dataclass(frozen=True)
class Effect:
    """What a pass did.

    Attributes:
        stage: what it changes, in words.
        name: that of the function.
        file: where it is.
        purpose: what would go wrong without it.
        ran: whether it is for such a program, on such a target.
        changed: whether it changed the program.
        added, removed: the operations of each kind that are more, and less, than before.
    """

    stage: str
    name: str
    file: str
    purpose: str
    ran: bool
    changed: bool
    added: dict[str, int]
    removed: dict[str, int]


def pass_report(lower: Callable[[], Any]) -> list[Effect]:
    """What each pass did, in the order of the passes.

    Args:
        lower: makes the module anew, a `Lowered`, so that its first passes are seen.

    Raises:
        CompileError: the module does not compile.
    """
    seen: dict[str, tuple[bool, Counter[str], Counter[str]]] = {}

    def watched(p: Pass, module: Any, change: Callable[[], Any]) -> Any:
        root = getattr(module, "operation", module)
        text, before = root.get_asm(), _count(root)
        found = change()
        seen[p.name] = root.get_asm() != text, before, _count(root)
        return found

    with passes.watched_by(watched):
        code, situation = lower().code_before_changes()
        with context():
            module = ir.Module.parse(code)
            passes.run(Stage.CODE, module, situation)
    return [_effect(p, seen.get(p.name)) for p in PASSES]


def _count(root: Any) -> Counter[str]:
    return Counter(op.name for op in operations(root))


def _effect(p: Pass, seen: tuple[bool, Counter[str], Counter[str]] | None) -> Effect:
    changed, before, after = seen or (False, Counter(), Counter())
    file = Path(inspect.getfile(p.function))
    passes_folder = Path(__file__).parent
    shown = file if passes_folder in file.parents else file.parent
    return Effect(
        p.stage.value, p.name, str(shown.relative_to(passes_folder.parents[1])), p.purpose, seen is not None, changed,
        dict(after - before), dict(before - after),
    )  # fmt: skip
