"""A failure made small: fewer transformations, smaller arrays, fewer equations; then written as a script.

Each candidate runs in a forked process, since it may end it. This process only traces, and never compiles or runs.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import veery as jax
from fuzz.checks import Outcome, check, judged
from fuzz.draw import SIZES
from fuzz.nesting import Stage, nest
from fuzz.programs import Draft, Edits, Program
from fuzz.reduce import Graph, candidates, graph_of
from fuzz.script import Unwritable, script
from fuzz.targets import target_named
from veery._core.jaxpr import jaxpr_as_fun

_AGAIN = '''"""{title}

{detail}

Its jaxpr is:
{jaxpr}
"""

from fuzz.checks import check
from fuzz.programs import Edits
from fuzz.targets import target_named

outcome = check({seed}, {number}, target_named({target!r}), {edits!r})
print(outcome.detail)
assert not outcome.is_finding
'''


def forked(function: Callable[[], Outcome], limit: float) -> Outcome:
    """The outcome of a function in a process of its own; a death or a hang is one too."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        try:
            with os.fdopen(write, "w") as file:
                file.write(json.dumps(function().as_dict()))
        finally:
            os._exit(0)
    os.close(write)
    received, deadline = b"", time.monotonic() + limit
    while True:
        ready, _, _ = select.select([read], [], [], max(0.0, deadline - time.monotonic()))
        more = os.read(read, 1 << 16) if ready else None
        if not more:
            break
        received += more
    os.close(read)
    if more is None:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if more is None:
        return Outcome(0, 0, "timeout", detail=f"no answer after {limit:.0f} s")
    if os.WIFSIGNALED(status):
        return Outcome(0, 0, "crash", detail=signal.Signals(os.WTERMSIG(status)).name)
    return Outcome(**json.loads(received)) if received else Outcome(0, 0, "crash", detail="no outcome")


def same(a: Outcome, b: Outcome) -> bool:
    """Whether two outcomes are the same failure."""
    return a.kind == b.kind and (a.kind != "refused" or a.cause == b.cause)


class Shrinker:
    """Makes one failure small, within some seconds.

    Args:
        found: the failure.
        target: where its program runs.
        seconds: how long it may take.
    """

    def __init__(self, found: Outcome, target: str, seconds: float = 120.0):
        self.found, self.target = found, target
        self.deadline = time.monotonic() + seconds
        # A try that takes this long is a hang: programs take 1 to 3 s.
        self.limit = 30.0 if found.kind == "timeout" else max(60.0, 4 * found.seconds)
        self.tried = 0

    @property
    def late(self) -> bool:
        return time.monotonic() > self.deadline

    def edits(self) -> tuple[Edits, Outcome]:
        """The smallest program that is drawn from the same seed and fails in the same way."""
        best, outcome = Edits(), self.found
        places = set(range(len(Draft(self.found.seed, self.found.number).names)))
        tries = [Edits(dropped=frozenset(places))] if len(places) > 1 else []
        for edits in tries:
            if (o := self._check(edits)) is not None:
                best, outcome = edits, o
        for place in sorted(places - best.dropped):
            edits = Edits(best.largest, best.dropped | {place}, best.keep_donation)
            if (o := self._check(edits)) is not None:
                best, outcome = edits, o
        for largest in SIZES[:-1]:
            edits = Edits(largest, best.dropped, best.keep_donation)
            if (o := self._check(edits)) is not None:
                best, outcome = edits, o
                break
        edits = Edits(best.largest, best.dropped, False)
        if (o := self._check(edits)) is not None:
            best, outcome = edits, o
        return best, outcome

    def _check(self, edits: Edits) -> Outcome | None:
        if self.late:
            return None
        self.tried += 1
        found = self.found
        o = forked(lambda: check(found.seed, found.number, target_named(self.target), edits), self.limit)
        return o if same(o, found) else None

    def reduced(self, graph: Graph, rebuild: Callable[[Graph], Program]) -> tuple[Graph, Outcome | None]:
        """The smallest graph that fails in the same way, of those that are tried; None if not even the first does."""
        outcome = self._judge(graph, rebuild)
        if outcome is None:
            return graph, None
        smaller = True
        while smaller and not self.late:
            smaller = False
            for candidate in candidates(graph):
                if self.late:
                    break
                if candidate.size >= graph.size and len(candidate.jaxpr.eqns) <= len(graph.jaxpr.eqns):
                    continue
                if (o := self._judge(candidate, rebuild)) is not None:
                    graph, outcome, smaller = candidate, o, True
                    break
        return graph, outcome

    def _judge(self, graph: Graph, rebuild: Callable[[Graph], Program]) -> Outcome | None:
        self.tried += 1
        o = forked(lambda: judged(lambda: rebuild(graph), target_named(self.target)), self.limit)
        return o if same(o, self.found) else None


def shrink(found: Outcome, target: str, folder: Path, seconds: float = 120.0) -> Path:
    """Make a failure small and write it as a script.

    Returns:
        The script's path.
    """
    shrinker = Shrinker(found, target, seconds)
    edits, outcome = shrinker.edits()
    traits = target_named(target)
    draft = Draft(found.seed, found.number, edits, traits.half, traits.wide)
    title = f"{found.kind}: {found.program} (seed {found.seed}, number {found.number}, target {target})"
    jaxpr, text = "", None
    with jax.enable_x64(draft.wide):
        try:
            program = draft.make()
            closed = jax.make_jaxpr(program.fun)(*program.args)
            graph = graph_of(closed, program.args)
            jaxpr = str(graph.closed)
            if found.kind == "rule":
                jaxpr += _before(shrinker, draft.again(edits))
                final = None
            else:
                graph, final = shrinker.reduced(graph, lambda g: _plain(g, program.wide))
            if final is not None:
                jaxpr = str(graph.closed)
                text = script(graph.jaxpr, graph.args, title, f"{found.detail}\n\nreduced:\n{final.detail}", draft.wide)
                outcome = final
        except Unwritable as missing:
            jaxpr += f"\n\n(not written as Python: {missing})"
        except Exception as error:
            jaxpr += f"\n\n({type(error).__name__}: {error})"
            jaxpr += _before(shrinker, draft.again(edits))
    if text is None:
        detail = outcome.detail or found.detail
        text = _AGAIN.format(
            title=title, detail=_quoted(detail), jaxpr=_quoted(jaxpr), seed=found.seed, number=found.number,
            target=target, edits=edits,
        )  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{found.kind}_{target}_{found.seed}_{found.number}.py"
    path.write_text(text)
    return path


def _quoted(text: str) -> str:
    return text.replace("\\", "/").replace('"""', "'''")


def _plain(graph: Graph, wide: bool) -> Program:
    """A jaxpr as a program without transformations."""
    fun = jaxpr_as_fun(graph.closed)
    return Program(0, 0, "jaxpr", [Stage(lambda *xs: tuple(fun(*xs)), graph.args)], [], [], (), wide)


def _before(shrinker: Shrinker, draft: Draft) -> str:
    """The smallest jaxpr to which the last transformations cannot be applied, or are applied wrongly, in words."""
    stage, rest = _traceable(draft)
    if stage is None:
        return ""

    def rebuild(graph: Graph) -> Program:
        fun = jaxpr_as_fun(graph.closed)
        stages = [Stage(lambda *xs: tuple(fun(*xs)), graph.args, stage.order, stage.reverse, stage.smooth)]
        transformations = []
        for place, name in rest:
            found = nest(stages[-1], name, draft.transformation_draw(place))
            if found is not None:
                transformations.append(found)
                stages.append(found.stage)
        return Program(draft.seed, draft.number, "jaxpr", stages, transformations, [], (), draft.wide)

    graph = graph_of(jax.make_jaxpr(stage.fun)(*stage.args), stage.args)
    graph, outcome = shrinker.reduced(graph, rebuild)
    names = " of ".join(name.lower() for _, name in reversed(rest))
    return f"\n\n{names} of\n{graph.closed}\n{outcome.detail}" if outcome is not None else ""


def _traceable(draft: Draft) -> tuple[Stage | None, list[tuple[int, str]]]:
    """The last stage but one that can be traced, and the transformations that remain."""
    kept = [(i, name) for i, name in enumerate(draft.names) if i not in draft.edits.dropped]
    for n in range(len(kept) - 1, -1, -1):
        dropped = draft.edits.dropped | {i for i, _ in kept[n:]}
        try:
            stage = draft.again(replace(draft.edits, dropped=frozenset(dropped))).make().stages[-1]
            jax.make_jaxpr(stage.fun)(*stage.args)
            return stage, kept[n:]
        except Exception:
            continue
    return None, []


def main() -> None:
    """Shrink the failure that is read from standard input, and print the script's path."""
    import veery_lowering  # noqa: F401  so that no forked process has to
    import veery_runtime  # noqa: F401

    target, folder, seconds = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])
    print(shrink(Outcome(**json.load(sys.stdin)), target, folder, seconds))


if __name__ == "__main__":
    main()
