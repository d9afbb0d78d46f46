"""One program: made, run and compared, with what came of it."""

from __future__ import annotations

import logging
import re
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import veery as jax
from fuzz.oracle import compiled_failures, rule_failures
from fuzz.programs import Draft, Edits, Program
from fuzz.targets import Crash, Target, Unsteady, Unsupported, run_program

_LOGGERS = logging.getLogger("veery"), logging.getLogger("veery_lowering")
_UNWRITTEN = "could not be written"  # is said of kernels by which exceptions are raised that nobody foresaw

FINDINGS = ("wrong", "rule", "refused", "crash", "timeout", "oracle")


@dataclass
class Outcome:
    """What came of a program.

    Attributes:
        kind: `ok`; `wrong`: the compiled program differs from the reference; `rule`: what a transformation made differs
            from the values of the function within; `refused`: an exception; `crash`, `timeout`: of the process;
            `oracle`: the reference failed; `skipped`: the target has not the program's types.
        program: its description.
        detail: the differences, or the exception.
        undetermined: the share of elements of which nothing is known.
        fallback: in which other form a program was compiled that IREE refused in its best one, and why.
    """

    seed: int
    number: int
    kind: str
    program: str = ""
    detail: str = ""
    undetermined: float = 0.0
    seconds: float = 0.0
    fallback: str = ""

    @property
    def is_finding(self) -> bool:
        return self.kind in FINDINGS

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def cause(self) -> str:
        """What is the same of findings with one cause: kind and text without numbers and names of one program."""
        lines = [line.strip() for line in self.detail.splitlines() if line.strip()] or [""]
        text = lines[1] if "cannot compile" in lines[0] and len(lines) > 1 else lines[0]
        return f"{self.kind}: {_without_particulars(text)}"

    @property
    def fallback_reason(self) -> str:
        """As `cause`, of a fallback."""
        return _without_particulars(self.fallback.partition("since IREE failed: ")[2])


def _without_particulars(text: str) -> str:
    text = re.sub(r"^(/\S+|loc\([^)]*\)):? *", "", text)
    return re.sub(r"0x[0-9a-f]+|[0-9]+", "N", text)[:90]


def check(seed: int, number: int, target: Target, edits: Edits = Edits(), rules: bool = True) -> Outcome:  # noqa: B008
    """Make a program, run it on a target, and compare its results.

    Args:
        seed, number: which one.
        target: where it runs.
        edits: how it differs from the one drawn.
        rules: whether the transformations are checked too.
    """
    start = time.perf_counter()
    draft = Draft(seed, number, edits, target.half, target.wide)
    with jax.enable_x64(draft.wide), Fallbacks() as said:
        outcome = judged(draft.make, target, rules)
    note(said, outcome)
    outcome.seed, outcome.number = seed, number
    outcome.program = outcome.program or " ".join([draft.name, *map(str.lower, draft.names)])
    outcome.seconds = round(time.perf_counter() - start, 3)
    return outcome


def note(said: Sequence[str], outcome: Outcome) -> None:
    """Add what `Fallbacks` heard to an outcome: a kernel that is not written is a finding, a fault of IREE is none."""
    outcome.fallback = "\n".join(said)
    if outcome.kind == "ok" and any(_UNWRITTEN in text for text in said):
        outcome.kind, outcome.detail = "refused", outcome.fallback


class Fallbacks(logging.Handler):
    """What is logged of programs that are not compiled in their best form, while this is entered."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if any(text in record.getMessage() for text in ("since IREE failed", _UNWRITTEN)):
            self.said.append(self.format(record))

    def __enter__(self) -> list[str]:
        self._levels = [logger.level for logger in _LOGGERS]
        for logger in _LOGGERS:
            logger.addHandler(self)
            logger.setLevel(logging.DEBUG)
        return self.said

    def __exit__(self, *_: object) -> None:
        for logger, level in zip(_LOGGERS, self._levels):
            logger.removeHandler(self)
            logger.setLevel(level)


def judged(make: Callable[[], Program], target: Target, rules: bool = True) -> Outcome:
    """Make a program, in the setting of 64-bit types that it needs, run it on a target, and compare its results."""
    outcome = Outcome(0, 0, "ok")
    try:
        program = make()
        outcome.program = str(program)
        closed, results = run_program(program, target)
    except Unsupported as missing:
        outcome.kind, outcome.detail = "skipped", str(missing)
        return outcome
    except Crash as crash:
        outcome.kind, outcome.detail = "crash", str(crash)
        return outcome
    except Unsteady as difference:
        outcome.kind, outcome.detail = "wrong", str(difference)
        return outcome
    except Exception as error:
        outcome.kind, outcome.detail = "refused", described(error)
        return outcome
    try:
        verdict = compiled_failures(closed, program.args, results)
        outcome.undetermined = round(verdict.undetermined, 4)
        if verdict.failures:
            outcome.kind, outcome.detail = "wrong", "\n".join(verdict.failures)
        elif rules and (failures := rule_failures(program)):
            outcome.kind, outcome.detail = "rule", "\n".join(failures)
    except Exception as error:
        outcome.kind, outcome.detail = "oracle", described(error)
    return outcome


def described(error: BaseException) -> str:
    """An exception with the place it was raised at."""
    frames = traceback.extract_tb(error.__traceback__)
    inner = [f for f in frames if "/veery" in f.filename or "fuzz" in f.filename][-3:]
    where = " < ".join(f"{'/'.join(f.filename.split('/')[-2:])}:{f.lineno} {f.name}" for f in reversed(inner))
    notes = "".join(f" {note}" for note in getattr(error, "__notes__", ()))
    return f"{type(error).__name__}{notes}: {str(error)[:1500]}\n  at {where}"
