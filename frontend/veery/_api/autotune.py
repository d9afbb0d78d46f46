"""Choosing options of the compiler by measurement, for `jit(f, compiler_options={"autotune": True})`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from veery import _dispatch
from veery._core.compiler_options import Pairs
from veery._core.host import processors
from veery._core.jaxpr import ClosedJaxpr
from veery._transforms.dce import side_effects

_ROUNDS = 15
_SECONDS = 0.3  # for each candidate, and at least two rounds
_GAIN = 0.95  # others are chosen for a gain of 5 %: less is noise


def tuned(closed: ClosedJaxpr, name: str, device: Any, options: Pairs, buffers: Sequence[Any]) -> Pairs:
    """The options with those added that make a call on these buffers fastest; found on disk, or measured now.

    Programs with effects keep their options: a measurement would let the effects happen.
    """
    options = tuple(pair for pair in options if pair[0] != "autotune")
    target = _dispatch.target_of(device)
    known = _dispatch.tuning(closed, target, options)
    if known is None:
        if side_effects(closed.effects):
            _dispatch.log_compilation("Not tuning %s: it has effects", name)
            return options
        known = _measured(closed, name, device, options, buffers)
        _dispatch.remember_tuning(closed, target, options, known)
    # What is asked for by name stays.
    return (*(pair for pair in known if pair[0] not in dict(options)), *options)


def _measured(closed: ClosedJaxpr, name: str, device: Any, options: Pairs, buffers: Sequence[Any]) -> Pairs:
    """The fastest of the candidates; () where none is clearly faster than what is chosen without tuning."""
    flags, queues = _dispatch.tuning_candidates(device)
    if not {"latency", "throughput"}.isdisjoint(value for _, value in options):
        queues = ()
    best = _fastest(closed, name, device, options, [(), *flags], buffers)
    return (*best, *_fastest(closed, name, device, (*best, *options), [(), *queues], buffers))


def _fastest(
    closed: ClosedJaxpr, name: str, device: Any, options: Pairs, candidates: Sequence[Pairs], buffers: Sequence[Any]
) -> Pairs:
    def load(candidate: Pairs) -> Any:
        try:
            return _dispatch.compile_jaxpr(closed, name, device, (), (*candidate, *options))
        except (RuntimeError, ValueError, IndexError) as error:
            _dispatch.log_compilation("Tuning %s: %s fails: %s", name, _text(candidate), str(error)[:200])
            return None

    with ThreadPoolExecutor(processors()) as pool:
        loaded = dict(zip(candidates, pool.map(load, candidates)))
    different = {(x._program.vmfb, x.queue): candidate for candidate, x in reversed(loaded.items()) if x is not None}
    times = _times({candidate: loaded[candidate] for candidate in different.values()}, buffers)
    for candidate, seconds in times.items():
        _dispatch.log_compilation("Tuning %s: %s takes %.1f us", name, _text(candidate), seconds * 1e6)
    best = min(times, key=lambda candidate: times[candidate])
    return best if times[best] < _GAIN * times.get((), float("inf")) else ()


def _times(executables: dict[Pairs, Any], buffers: Sequence[Any]) -> dict[Pairs, float]:
    """The least time of a call of each, all measured in turn."""
    best = dict.fromkeys(executables, float("inf"))
    for executable in executables.values():
        _run(executable, buffers)
    spent, rounds = 0.0, 0
    while rounds < 2 or (rounds < _ROUNDS and spent < _SECONDS * len(executables)):
        for candidate, executable in executables.items():
            seconds = _run(executable, buffers)
            best[candidate] = min(best[candidate], seconds)
            spent += seconds
        rounds += 1
    return best


def _run(executable: Any, buffers: Sequence[Any]) -> float:
    start = time.perf_counter()
    for buffer in executable(buffers):
        buffer.wait()
    return time.perf_counter() - start


def _text(candidate: Pairs) -> str:
    return " ".join(f"{name}={value}" for name, value in candidate) or "as it is"
