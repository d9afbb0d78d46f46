"""Values as samples: the value proper, and others that differ from it as a compiled program's might.

A value is a tuple of arrays. The first is the float64 evaluation; in the others each operation's result was changed
by a random error of the size that its dtype's rounding has. Arrays that cannot differ are one object, so that what is
exact (integers, masks, what is only moved) is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery._reference.formats import Format, of_parts, parts

Value = tuple[np.ndarray, ...]

_CANCELLED = 0.01  # the share of its terms' sizes below which a sum has lost digits
SAFETY = 4.0  # by how much errors may be larger than those of the samples


def known(value: Value) -> bool:
    """Whether the samples are one array: the value has no error."""
    return all(x is value[0] for x in value[1:])


def shared(arrays: Sequence[np.ndarray]) -> Value:
    """Samples as a value: equal arrays become one object."""
    first = arrays[0]
    if all(x is first or _equal(x, first) for x in arrays[1:]):
        return (first,) * len(arrays)
    return tuple(arrays)


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    return np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")


def each(function: Callable[..., Any], operands: Sequence[Value], count: int) -> list[Value]:
    """The results of a function, which returns a list of arrays, for each sample of its operands."""
    if all(map(known, operands)):
        return [(np.asarray(x),) * count for x in function(*(v[0] for v in operands))]
    results = [function(*arrays) for arrays in zip(*operands)]
    return [shared([np.asarray(x) for x in arrays]) for arrays in zip(*results)]


def spread(value: Value) -> np.ndarray:
    """How far samples are from the first, at most, element by element; inf where one is NaN or infinite alone."""
    first = value[0]
    size = np.zeros(first.shape)
    if known(value):
        return size
    with np.errstate(all="ignore"):
        for x in value[1:]:
            if x is not first:
                same = (x == first) | (np.isnan(x) & np.isnan(first))
                distance = np.abs(x - first)
                size = np.maximum(size, np.where(same, 0.0, np.where(np.isnan(distance), np.inf, distance)))
    return size


def disturbed(
    value: Value,
    amplitude: Any,
    form: Format,
    rng: np.random.Generator,
    terms: np.ndarray | None = None,
    zeros: bool = False,
) -> Value:
    """Samples with random errors of an amplitude, zeros too if asked, and within the range of their format.

    Where the terms of a sum (given by the sum of their sizes) cancel so far that its sign is open, one of the samples
    is zero and one has the other sign: in a compiled program they may cancel to nothing. Numbers below the smallest
    normal one may be flushed.
    """
    first = value[0]
    if not first.size:
        return value
    amplitude = np.broadcast_to(np.asarray(amplitude, np.float64), first.shape)
    with np.errstate(all="ignore"):
        if np.any(amplitude):
            arrays = [first, *(_with_error(x, amplitude, rng, zeros) for x in value[1:])]
        else:
            arrays = list(value)
        if terms is not None and arrays[0] is not arrays[-1]:
            _open_signs(arrays, terms)
        _flush(arrays, form)
        return shared([_within_range(x, form, i) for i, x in enumerate(arrays)])


def disturbed_again(value: Value, form: Format, rng: np.random.Generator) -> Value:
    """Samples with the error of one more rounding to a format, but for what it holds exactly."""
    if known(value):
        return value
    results = [value[0]]
    with np.errstate(all="ignore"):
        for x in value[1:]:
            size = np.where(np.isfinite(x) & ~representable(x, form), form.eps / 2 * np.abs(x), 0.0)
            results.append(_with_error(x, size, rng))
    return shared(results)


def _with_error(x: np.ndarray, amplitude: np.ndarray, rng: np.random.Generator, zeros: bool = False) -> np.ndarray:
    """Errors of either sign that are not much smaller than the amplitude; a zero stays one unless asked."""
    p = parts(x)
    size = amplitude if x.dtype.kind != "c" else amplitude[..., None]
    chance = rng.uniform(-1, 1, p.shape)
    errs = (size > 0) & (zeros | (p != 0))
    return of_parts(np.where(errs, p + (chance + np.copysign(1, chance)) / 2 * size, p), x.dtype)


def _open_signs(arrays: list[np.ndarray], terms: np.ndarray) -> None:
    size = 2 * spread(tuple(arrays))
    cancelled = np.abs(arrays[0]) < _CANCELLED * terms
    open_ = cancelled & (np.abs(arrays[0]) <= size) & (size > 0) & np.isfinite(size)
    if not open_.any():
        return
    arrays[1] = np.where(open_, 0.0, arrays[1])
    if len(arrays) > 2:
        first = arrays[0]
        opposite = np.where(first == 0, size, -first / np.where(first == 0, 1, np.abs(first)) * size) / 2
        arrays[2] = np.where(open_, opposite, arrays[2])


def _flush(arrays: list[np.ndarray], form: Format) -> None:
    """Let one sample have zeros in the place of subnormal numbers."""
    if len(arrays) < 2:
        return
    p = parts(arrays[0])
    small = (np.abs(p) < form.tiny) & (p != 0)
    if small.any():
        arrays[1] = of_parts(np.where(small, np.copysign(0.0, p), parts(arrays[1])), arrays[1].dtype)


def _within_range(x: np.ndarray, form: Format, sample: int) -> np.ndarray:
    """What is too large for the format as the format has it; one sample of float16 may have been computed wider."""
    if form.dtype == np.float64 or (form.dtype == np.float16 and sample == 3):
        return x
    p = parts(x)
    beyond = np.abs(p) > form.largest  # infinities too: some formats have none
    if not beyond.any():
        return x
    return of_parts(np.where(beyond, p.astype(form.dtype).astype(np.float64), p), x.dtype)


def representable(x: np.ndarray, form: Format) -> np.ndarray:
    """Where a number, or both parts of a complex one, is one that the format holds without rounding."""
    p = parts(x)
    with np.errstate(all="ignore"):
        same = (p.astype(form.exact).astype(np.float64) == p) | ~np.isfinite(p)
    return same if x.dtype.kind != "c" else same.all(-1)
