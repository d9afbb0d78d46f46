"""Programs verified as they run: their results compared with the reference, and what is wrong told."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from veery import _dispatch
from veery._core import effects
from veery._core.compiler_options import Pairs
from veery._core.config import verify as setting, verify_beside
from veery._core.dimensions import is_symbolic
from veery._core.errors import VerificationError
from veery._core.jaxpr import ClosedJaxpr
from veery._reference import blame
from veery._reference.agreement import standing
from veery._reference.comparison import Comparison, compare_each
from veery._reference.control_flow import on_all_devices
from veery._reference.interpreter import Unverifiable
from veery._reference.replay import Calls, recorded
from veery._reference.reproduction import write
from veery._transforms.dce import dce_jaxpr

logger = logging.getLogger("veery")


class Record(NamedTuple):
    """A program that was verified, by the name of its function, and where it ran."""

    name: str
    platform: str
    comparison: Comparison


_records: ContextVar[list[Record] | None] = ContextVar("records", default=None)


@contextmanager
def recording() -> Iterator[list[Record]]:
    """A list that gets a record of each program that this thread verifies within the context."""
    found: list[Record] = []
    token = _records.set(found)
    try:
        yield found
    finally:
        _records.reset(token)


def run_verified(
    executable: Any, buffers: Sequence[Any], closed: ClosedJaxpr, name: str, device: Any, options: Pairs
) -> Sequence[Any]:
    """Run a program and compare its results with the reference, if the settings want this call compared.

    Raises:
        VerificationError: they differ.
    """
    key, verified = (device, options, verify_beside.value), closed.derived.verified
    if setting.value == "first" and key in verified:
        return executable(buffers)  # type: ignore[no-any-return]
    verified.add(key)
    args = [np.array(b.numpy()) for b in buffers]  # copies: the program may overwrite them
    with recorded(closed) as calls:
        results: Sequence[Any] = executable(buffers)
        outs = [b.numpy() for b in results]
    if executable.queue == "xla" and device.platform == "cpu":  # jit(compiler="xla")
        device = _dispatch.first_device("xla")
    with setting("off"):
        check(closed, name, args, outs, device, options, calls=calls)
    return results


def verify_pmap(args: Sequence[Any], outs: Sequence[Any], devices: tuple[Any, ...], **params: Any) -> None:
    """Compare what `pmap` returned with the reference, if the settings want this call compared.

    Raises:
        VerificationError: they differ.
    """
    key, verified = (devices, verify_beside.value), params["jaxpr"].derived.verified
    if setting.value == "first" and key in verified:
        return
    verified.add(key)
    with setting("off"):
        try:
            closed = on_all_devices(**params)
        except Unverifiable as error:
            logger.info("pmap(%s) is not verified: %s", params["name"], error)
            return
        size, mapped = params["axis_size"], params["out_mapped"]
        values, results = ([np.asarray(x) for x in arrays] for arrays in (args, outs))
        whole = [x if m else np.broadcast_to(x, (size, *x.shape)) for x, m in zip(results, mapped)]
        check(closed, params["name"], values, whole, devices[0])


def verify_distributed(
    closed: ClosedJaxpr, args: Sequence[Any], outs: Sequence[Any], devices: tuple[Any, ...], name: str
) -> None:
    """Compare what several devices returned with the reference of what they compute together, if that is wanted.

    Raises:
        VerificationError: they differ.
    """
    verified = closed.derived.verified
    if setting.value == "first" and devices in verified:
        return
    verified.add(devices)
    with setting("off"):
        check(closed, name, [np.asarray(x) for x in args], [np.asarray(x) for x in outs], devices[0])


def check(
    closed: ClosedJaxpr,
    name: str,
    args: Sequence[Any],
    outs: Sequence[Any],
    device: Any,
    options: Pairs = (),
    seed: int = 0,
    calls: Calls | None = None,
) -> Comparison | None:
    """Compare what a program returned with the reference, and with what it returns on the platforms of the settings.

    Args:
        closed: the program, without consts.
        name: of its function.
        args: its arguments.
        outs: its results.
        device: where it ran, and where parts of it run to find the equation at fault.
        options: those it was compiled with.
        seed: of the random errors by which bounds are found.
        calls: what its `io_callback`s returned.

    Returns:
        The comparison of `outs`; None if the program cannot be evaluated again (a line is logged).

    Raises:
        VerificationError: results differ from the reference's, or the program does not run on one of the platforms.
        RuntimeError: there is no device of a platform.
    """
    others = _devices_beside(device)
    try:
        if any(is_symbolic(getattr(aval, "shape", ())) for aval in closed.in_avals):
            raise Unverifiable("its shapes are symbolic")
        places = [(device, options), *((other, ()) for other in others if _may_run_again(closed, name, other))]
        runs = [outs, *(_run_beside(closed, name, args, other) for other, _ in places[1:])]
        comparisons = compare_each(closed, args, runs, seed, calls)
    except Unverifiable as error:
        logger.info("jit(%s) is not verified: %s", name, error)
        return None
    found = {place.platform: comparison for (place, _), comparison in zip(places, comparisons)}
    if (records := _records.get()) is not None:
        records.extend(Record(name, platform, comparison) for platform, comparison in found.items())
    wrong = [(place, c) for place, c in zip(places, comparisons) if not c.ok]
    if not wrong:
        return comparisons[0]
    lines = [line for (place, _), c in wrong for line in _differences(c, name, place)]
    lines += [standing(found)] if len(found) > 1 else []
    if effects.has_io(closed.effects):  # its parts are not run apart, which would call the functions again
        raise VerificationError("\n".join(lines), name)
    (place, asked), comparison = wrong[0]
    run = functools.partial(_run, name=name, device=place, options=asked)
    culprit = blame.find(closed, args, comparison.failures[0], run, seed)
    raise _error(culprit, lines, name, place, asked, seed)


def _devices_beside(device: Any) -> list[Any]:
    """The first devices of the platforms that programs are to run on too."""
    platforms = [p for p in verify_beside.value.split(",") if p not in ("", device.platform)]
    return [_dispatch.first_device(platform) for platform in platforms]


def _may_run_again(closed: ClosedJaxpr, name: str, device: Any) -> bool:
    if not effects.has_io(closed.effects):
        return True
    logger.info("jit(%s) does not run on %s too, which would call its io_callback again", name, device.platform)
    return False


def _run_beside(closed: ClosedJaxpr, name: str, args: Sequence[Any], device: Any) -> list[Any]:
    silent = closed.map_jaxpr(lambda jaxpr: dce_jaxpr(jaxpr, keep_effects=False))  # what is printed, is once
    try:
        return _run(silent, args, name, device, ())
    except Exception as error:
        raise VerificationError(f"jit({name}) does not run on {device}: {error}", name) from error


def _run(program: ClosedJaxpr, values: Sequence[Any], name: str, device: Any, options: Pairs) -> list[Any]:
    """Compile and run a program."""
    executable = _dispatch.compile_jaxpr(program, name, device, (), options)
    arrays = [_dispatch.put(np.asarray(x), aval) for x, aval in zip(values, program.in_avals)]
    return [b.numpy() for b in executable(_dispatch.on_device(arrays, device))]


def _differences(found: Comparison, name: str, device: Any) -> list[str]:
    return [
        f"jit({name}) on {device} differs from its evaluation in float64.",
        *(f"  {failure}" for failure in found.failures),
    ]


def _error(
    culprit: blame.Culprit, differences: Sequence[str], name: str, device: Any, options: Pairs, seed: int
) -> VerificationError:
    path = write(culprit, name, _dispatch.target_of(device), options, seed, _folder())
    eqn = culprit.equation
    equation = "" if eqn is None else blame.place(eqn)
    lines = [
        *differences,
        f"The first equation that differs is {equation}:" if eqn is not None else "No equation of it differs.",
        *([f"  {_line(eqn)}", f"  {culprit.failure.elements}"] if eqn is not None else []),
        culprit.how,
        f"{path} reproduces it.",
    ]
    return VerificationError("\n".join(lines), name, equation, str(path))


def _line(eqn: Any) -> str:
    """An equation in a line; the jaxprs that it holds are in the file."""
    text = " ".join(str(eqn).split())
    return text if len(text) <= 300 else f"{text[:300]}..."


def _folder() -> Path:
    return Path(os.environ.get("VEERY_VERIFY_DIR", "."))
