"""What a program returned, compared with the reference within error bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from veery._core import dtypes
from veery._core.avals import ShapedArray
from veery._core.jaxpr import ClosedJaxpr
from veery._reference.formats import format_of, held, physical
from veery._reference.interpreter import Interpreter
from veery._reference.replay import Calls
from veery._reference.samples import SAFETY, Value, spread

SAMPLES = 4  # the evaluation in float64, and three with errors
MORE = 12  # with errors, before an element is said to be wrong: those of three may all be small by chance
_LOST = 0.1  # the share of the largest number that is no error any more, in formats of many digits
_LOST_UNITS = 32.0  # in others this many neighbours' distances at 1, but no more than
_LOST_AT_MOST = 0.5
FLOOR = 4.0  # units in the last place that a result may be wrong by in any case


@dataclass(frozen=True)
class Failure:
    """The wrong elements of one output.

    Attributes:
        output: which one.
        count: how many are wrong, of `size`.
        size: the number of elements.
        index: the place of the worst.
        actual: what the program returned there.
        expected: what the reference has there.
        bound: by how much they may differ.
        reason: what is wrong with the output as a whole (its shape or dtype); then there are no elements.
    """

    output: int
    count: int
    size: int
    index: tuple[int, ...]
    actual: Any
    expected: Any
    bound: float
    reason: str = ""

    def __str__(self) -> str:
        return f"output {self.output}: {self.elements}"

    @property
    def elements(self) -> str:
        """What is wrong, without the number of the output."""
        return self.reason or (
            f"{self.count} of {self.size} elements differ; at {list(self.index)} the program has {self.actual}, the "
            f"reference {self.expected} within {self.bound:.3g}"
        )


@dataclass(frozen=True)
class Comparison:
    """Outputs of a program beside those of the reference.

    Attributes:
        failures: one for each output that is wrong; none if all is right.
        undetermined: the share of elements that were not compared, because rounding may make them anything (they lie
            behind a jump, or all their digits are lost).
        expected: the reference's outputs.
        bounds: for each output, by how much each element may differ; inf where it is not compared.
        actual: the program's outputs, as the reference holds them.
    """

    failures: list[Failure]
    undetermined: float
    expected: list[np.ndarray]
    bounds: list[np.ndarray]
    actual: list[np.ndarray]

    @property
    def largest_error(self) -> float:
        """The largest difference, relative to the largest number of its output, of what was compared."""
        return max(map(_relative, self._differences(), self.expected), default=0.0)

    @property
    def largest_bound(self) -> float:
        """The largest bound, relative to the largest number of its output, of what was compared."""
        return max(map(_relative, self.bounds, self.expected), default=0.0)

    def _differences(self) -> list[np.ndarray]:
        with np.errstate(all="ignore"):
            return [
                np.where(np.isinf(b) | (a == e), 0.0, np.abs(np.subtract(a, e, dtype=np.result_type(e, np.float64))))
                for a, e, b in zip(self.actual, self.expected, self.bounds)
            ]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.failures


def samples(closed: ClosedJaxpr, args: Sequence[Any], seed: int, count: int, calls: Calls | None = None) -> list[Value]:
    """The outputs of a closed jaxpr as samples (see veery._reference.samples)."""
    interp = Interpreter(np.random.default_rng(seed), calls, count)
    values = [interp.constant(x, aval, count) for x, aval in zip(args, closed.in_avals, strict=True)]
    return interp.run(closed, values, count)


def evaluate(closed: ClosedJaxpr, *args: Any) -> list[np.ndarray]:
    """Evaluate a closed jaxpr by NumPy and SciPy in float64.

    Args:
        closed: the jaxpr.
        *args: its arguments.

    Returns:
        Its results: float64 for real numbers, complex128 for complex ones, integers and bools in their own dtypes.

    Raises:
        Unverifiable: the program has an `io_callback`.

    >>> import veery, veery.numpy as jnp
    >>> from veery import _reference
    >>> closed = veery.make_jaxpr(lambda x: jnp.sin(x).sum())(jnp.float32(1))
    >>> _reference.evaluate(closed, np.float32(0.5))
    [array(0.47942554)]
    """
    return [value[0] for value in samples(closed, args, 0, 1)]


def compare(
    closed: ClosedJaxpr, args: Sequence[Any], outs: Sequence[Any], seed: int = 0, calls: Calls | None = None
) -> Comparison:
    """Compare what a program returned with the reference.

    Args:
        closed: the program's jaxpr.
        args: its arguments.
        outs: what it returned.
        seed: of the random errors by which bounds are found.
        calls: what its `io_callback`s returned.

    Raises:
        Unverifiable: the program has an `io_callback` of which that is not known.

    >>> import veery, veery.numpy as jnp
    >>> from veery import _reference
    >>> x = jnp.array([2.0])
    >>> closed = veery.make_jaxpr(jnp.sin)(x)
    >>> _reference.compare(closed, [x], [jnp.sin(x)]).failures
    []
    >>> print(*_reference.compare(closed, [x], [jnp.cos(x)]).failures)
    output 0: 1 of 1 elements differ; at [0] the program has -0.416146..., the reference 0.9092974268256817 within ...
    """
    (found,) = compare_each(closed, args, [outs], seed, calls)
    return found


def compare_each(
    closed: ClosedJaxpr,
    args: Sequence[Any],
    runs: Sequence[Sequence[Any]],
    seed: int = 0,
    calls: Calls | None = None,
) -> list[Comparison]:
    """Compare what several compilers' programs returned with one evaluation of the reference.

    Args:
        closed, args, seed, calls: as of `compare`.
        runs: what each program returned.
    """
    values = samples(closed, args, seed, SAMPLES, calls)
    found = [of_samples(values, closed.out_avals, outs) for outs in runs]
    if all(comparison.ok for comparison in found):
        return found
    more = samples(closed, args, seed + 1, 1 + MORE, calls)
    values = [(*v, *m[1:]) for v, m in zip(values, more)]
    return [of_samples(values, closed.out_avals, outs) for outs in runs]


def bounds_and_values(closed: ClosedJaxpr, args: Sequence[Any], seed: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The reference's outputs, and by how much a program's may differ, with all the samples."""
    values = samples(closed, args, seed, 1 + MORE)
    return [v[0] for v in values], [bound_of(v, aval) for v, aval in zip(values, closed.out_avals)]


def of_samples(values: Sequence[Value], avals: Sequence[Any], outs: Sequence[Any]) -> Comparison:
    """Compare outputs with samples."""
    bounds = [bound_of(v, aval) for v, aval in zip(values, avals, strict=True)]
    found = [_failure(i, v[0], b, a, o) for i, (v, b, a, o) in enumerate(zip(values, bounds, avals, outs, strict=True))]
    size = sum(b.size for b in bounds)
    open_ = sum(int(np.isinf(b).sum()) for b in bounds)
    failures = [f for f in found if f is not None]
    actual = [held(o, a.dtype) for o, a in zip(outs, avals)]
    return Comparison(failures, open_ / size if size else 0.0, [v[0] for v in values], bounds, actual)


def _relative(sizes: np.ndarray, beside: np.ndarray) -> float:
    """The largest finite number, as a share of the largest of others."""
    largest = lambda x: float(np.max(np.abs(x), where=np.isfinite(x), initial=0.0))
    return largest(sizes) / (largest(beside.astype(np.result_type(beside, np.float64))) or 1.0)


def bound_of(value: Value, aval: ShapedArray) -> np.ndarray:
    """By how much each element of an output may differ; inf where it is not to be compared.

    That is where samples disagree about integers, bools, NaN or infinity, and where an error may be a tenth of the
    largest number of the output: it is no longer in proportion to those of operations then. In formats of few digits,
    where a handful of operations may have such an error, the limit is 32 distances between neighbours, half at most.
    """
    first = value[0]
    form = format_of(aval.dtype)
    if form is None:
        differ = np.zeros(first.shape, bool)
        for x in value[1:]:
            if x is not first:
                differ |= x != first
        return np.where(differ, np.inf, 0.0)
    with np.errstate(all="ignore"):
        size = np.abs(first)
        finite = np.isfinite(size)
        error = SAFETY * spread(value)
        largest = np.max(size, where=finite, initial=0.0)
        limit = min(max(_LOST, _LOST_UNITS * form.eps), _LOST_AT_MOST) * largest
        lost = (error >= limit) & (error > 0)
        if lost.any():  # in what is left errors may be as large, and small in all samples by chance
            error = np.where(error > 0, np.maximum(error, np.median(error[error > 0])), 0)
            error = np.where((error >= limit) & (error > 0), np.inf, error)
        return error + np.where(finite, FLOOR * form.eps * size, 0) + FLOOR * form.tiny


def _failure(position: int, expected: np.ndarray, bound: np.ndarray, aval: Any, out: Any) -> Failure | None:
    shape, dtype = np.shape(out), getattr(out, "dtype", None)
    if shape != aval.shape or dtype not in (aval.dtype, physical(aval.dtype)):
        reason = f"the program has {dtype}{list(shape)}, the reference {aval.str_short()}"
        return Failure(position, expected.size, expected.size, (), None, None, 0.0, reason)
    if aval.dtype == dtypes.float0:
        return None
    actual = held(out, aval.dtype)
    with np.errstate(all="ignore"):
        if format_of(aval.dtype) is None:
            wrong = (actual != expected) & (bound == 0)
            badness = wrong.astype(np.float64)
        else:
            same = (actual == expected) | (np.isnan(actual) & np.isnan(expected)) | np.isinf(bound)
            distance = np.abs(actual - expected)
            wrong = ~(same | (distance <= bound))
            badness = np.where(wrong, np.where(np.isfinite(distance), distance / bound, np.inf), 0)
    if not wrong.any():
        return None
    index = tuple(int(i) for i in np.unravel_index(np.argmax(badness), wrong.shape))
    shown = np.asarray(out.to_numpy() if hasattr(out, "to_numpy") else out)[index]
    return Failure(position, int(wrong.sum()), wrong.size, index, shown, expected[index], float(bound[index]))
