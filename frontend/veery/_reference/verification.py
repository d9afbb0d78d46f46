"""Programs verified as they run: their results compared with the reference, and what is wrong told."""

from __future__ import annotations

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
from veery._core.config import verify as setting
from veery._core.dimensions import is_symbolic
from veery._core.errors import VerificationError
from veery._core.jaxpr import ClosedJaxpr
from veery._reference import blame
from veery._reference.comparison import Comparison, compare
from veery._reference.control_flow import on_all_devices
from veery._reference.interpreter import Unverifiable
from veery._reference.replay import Calls, recorded
from veery._reference.reproduction import write

logger = logging.getLogger("veery")


class Record(NamedTuple):
    """A program that was verified, by the name of its function."""

    name: str
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
    key, verified = (device, options), closed.derived.verified
    if setting.value == "first" and key in verified:
        return executable(buffers)  # type: ignore[no-any-return]
    verified.add(key)
    args = [np.array(b.numpy()) for b in buffers]  # copies: the program may overwrite them
    with recorded(closed) as calls:
        results: Sequence[Any] = executable(buffers)
        outs = [b.numpy() for b in results]
    with setting("off"):
        check(closed, name, args, outs, device, options, calls=calls)
    return results


def verify_pmap(args: Sequence[Any], outs: Sequence[Any], devices: tuple[Any, ...], **params: Any) -> None:
    """Compare what `pmap` returned with the reference, if the settings want this call compared.

    Raises:
        VerificationError: they differ.
    """
    verified = params["jaxpr"].derived.verified
    if setting.value == "first" and devices in verified:
        return
    verified.add(devices)
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
    """Compare what a program returned with the reference.

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
        The comparison; None if the program cannot be evaluated again (a line is logged).

    Raises:
        VerificationError: they differ.
    """
    try:
        if any(is_symbolic(getattr(aval, "shape", ())) for aval in closed.in_avals):
            raise Unverifiable("its shapes are symbolic")
        found = compare(closed, args, outs, seed, calls)
    except Unverifiable as error:
        logger.info("jit(%s) is not verified: %s", name, error)
        return None
    if (records := _records.get()) is not None:
        records.append(Record(name, found))
    if found.ok:
        return found
    if effects.has_io(closed.effects):  # its parts are not run apart, which would call the functions again
        raise VerificationError("\n".join(_differences(found, name, device)), name)

    def run(program: ClosedJaxpr, values: Sequence[Any]) -> list[Any]:
        executable = _dispatch.compile_jaxpr(program, name, device, (), options)
        arrays = [_dispatch.put(np.asarray(x), aval) for x, aval in zip(values, program.in_avals)]
        return [b.numpy() for b in executable(_dispatch.on_device(arrays, device))]

    raise _error(blame.find(closed, args, found.failures[0], run, seed), found, name, device, options, seed)


def _differences(found: Comparison, name: str, device: Any) -> list[str]:
    return [
        f"jit({name}) on {device} differs from its evaluation in float64.",
        *(f"  {failure}" for failure in found.failures),
    ]


def _error(
    culprit: blame.Culprit, found: Comparison, name: str, device: Any, options: Pairs, seed: int
) -> VerificationError:
    path = write(culprit, name, _dispatch.target_of(device), options, seed, _folder())
    eqn = culprit.equation
    equation = "" if eqn is None else blame.place(eqn)
    lines = [
        *_differences(found, name, device),
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
