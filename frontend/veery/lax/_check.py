"""The condition of a check as a primitive, which `checkify` makes a value of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from veery._core.ad import NONDIFFERENTIABLE
from veery._core.config import config
from veery._core.jaxpr import Effect
from veery._core.primitive import Primitive
from veery._transforms.batching import move_batch
from veery.lax import _bitwise, _compare, _reduce, _slicing


class JaxRuntimeError(ValueError):
    """A check failed."""


class JaxException(Exception):
    """What went wrong, as `Error.get_exception` gives it; its subclasses are the kinds of checks."""


class FailedCheckError(JaxException):
    """A condition of the user's did not hold."""


class NaNError(JaxException):
    """An operation gave a NaN."""


class DivisionByZeroError(JaxException):
    """A divisor was zero."""


class OOBError(JaxException):
    """An index was out of bounds."""


Kind = type[JaxException]


class CheckEffect(Effect):
    """The equation may fail."""


check_effect = CheckEffect()


@dataclass(frozen=True, eq=False)
class Site:
    """A place where a check is made: how to word its failure, given the values that go with it."""

    kind: Kind
    message: Callable[[Sequence[np.ndarray]], str]

    def __repr__(self) -> str:
        return self.kind.__name__


def index_site(shape: Sequence[Any], axes: Sequence[int]) -> Site:
    """The check of an index, whose values are the index and its place in `axes`."""

    def message(payload: Sequence[np.ndarray]) -> str:
        axis = axes[int(payload[1])]
        return (
            f"out-of-bounds indexing for array of shape {tuple(shape)}: index {int(payload[0])} is out of bounds for "
            f"axis {axis} with size {shape[axis]}."
        )

    return Site(OOBError, message)


def check_index(index: Any, shape: Sequence[Any], axis: int) -> None:
    """Have `checkify` told of a scalar index out of bounds, where what reads or writes there does not show it."""
    if config.checks_indices:
        inside = _bitwise.bitwise_and(_compare.ge(index, 0), _compare.lt(index, shape[axis]))
        check_p.bind(inside, index, np.int32(0), site=index_site(shape, (axis,)), debug=True)


def _fail(pred: Any, *payload: Any, site: Site, debug: bool) -> list[Any]:
    if not debug and not np.all(np.asarray(pred)):
        raise JaxRuntimeError(site.message([np.asarray(x) for x in payload]))
    return []


def _batch(args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> tuple[list, list]:
    """The check of a whole batch, with the values of the first element that fails."""
    size = next(np.shape(x)[d] for x, d in zip(args, dims) if d is not None)
    rows = [move_batch(x, d, 0, size) for x, d in zip(args, dims)]
    first = _reduce.argmin(rows[0], 0, np.int32) if dims[0] is not None else np.int32(0)
    pick = lambda x: _slicing.dynamic_index_in_dim(x, first, 0, keepdims=False)
    pred = args[0] if dims[0] is None else _reduce.reduce_and_p.bind(rows[0], axes=(0,))
    check_p.bind(pred, *map(pick, rows[1:]), **params)
    return [], []


check_p = Primitive(
    "check",
    multiple_results=True,
    abstract_eval=lambda *avals, site, debug: [],
    effects=lambda *avals, **_: {check_effect},
    impl=_fail,
    jvp=NONDIFFERENTIABLE,
    batch=_batch,
    reference=_fail,
)
