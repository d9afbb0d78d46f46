"""The better of two: a program compiled quickly, and one that may be faster, measured on the arguments of a call."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from veery_runtime import workers
from veery_runtime.buffer import Buffer, put
from veery_runtime.workers import Workers

_compilations = Workers("veery-compile")
_ROUNDS = 7
_SECONDS = 0.25  # of measurement for both together, but at least a call of each after the first


class BetterExecutable:
    """A program in two forms, of which the first runs until the second is there and shown to be faster.

    Attributes:
        current: the form that runs now.
        decided: whether it stays.
    """

    def __init__(
        self,
        first: Any,
        names: tuple[str, str],
        second: Callable[[], Any],
        tell: Callable[[str, dict[str, float]], Any],
    ) -> None:
        """Starts to make the second form, on a thread of its own.

        Args:
            first: the form that is there.
            names: of both.
            second: makes the other one.
            tell: is told the name of the form that was chosen, and the seconds that a call of each took.
        """
        self.name, self.device, self.donated = first.name, first.device, first.donated
        self.inputs, self.outputs, self.has_effects = first.inputs, first.outputs, first.has_effects
        self._program = first._program
        self.current = first
        self.decided = False
        self._names = names
        self._tell = tell
        run = first.call

        def call(buffers: Sequence[Buffer]) -> list[Buffer]:
            results: list[Buffer] = run(buffers)
            return results

        def use(form: Callable[[Sequence[Buffer]], list[Buffer]]) -> None:
            nonlocal run
            run = form

        self.call = call
        self._use = use
        _compilations.submit(lambda: self._prepare(second))

    def __call__(self, buffers: Sequence[Buffer]) -> list[Buffer]:
        """Runs the program; see veery_runtime.Executable."""
        return self.call(buffers)

    def at(self, shapes: Sequence[tuple[int, ...]]) -> BetterExecutable:
        """The program for arguments of these shapes: itself."""
        return self

    @property
    def queue(self) -> str:
        """That of the form which runs now."""
        return str(self.current.queue)

    def _prepare(self, second: Callable[[], Any]) -> None:
        try:
            other = second()
        except Exception:  # it was told of; the first form stays
            self.decided = True
            return
        first = self.current

        def measuring(buffers: Sequence[Buffer]) -> list[Buffer]:
            if workers.nested() or self.decided:
                return list(self.current.call(buffers))
            self.decided = True  # other threads go on meanwhile
            times = _times([first, other], buffers)
            fastest = min(range(2), key=times.__getitem__)
            self.current = (first, other)[fastest]
            self._use(self.current.call)
            self._tell(self._names[fastest], dict(zip(self._names, times)))
            return list(self.current.call(buffers))

        self._use(measuring)


def _times(forms: Sequence[Any], buffers: Sequence[Buffer]) -> list[float]:
    """The least seconds that a call of each takes, after a first one; in turns."""
    donated = frozenset(forms[0].donated)
    best = [float("inf")] * len(forms)
    spent, round_ = 0.0, 0
    while round_ < 2 or (round_ < _ROUNDS and spent < _SECONDS):
        for i, form in enumerate(forms):
            given = [put(b.numpy(), b.device) if k in donated else b for k, b in enumerate(buffers)]
            start = time.perf_counter()
            for result in form.call(given):
                result.wait()
            seconds = time.perf_counter() - start
            spent += seconds
            if round_:
                best[i] = min(best[i], seconds)
        round_ += 1
    return best
