"""What an operation costs, counted before any fusion: rules for the field `cost` of primitives."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from veery._core.jaxpr import JaxprEqn


class Cost(NamedTuple):
    """Operations of an equation, as XLA counts them; expressions where shapes are symbolic.

    Attributes:
        flops: additions, products, comparisons and the like, of floats or integers.
        transcendentals: elementary functions, which are counted apart.
    """

    flops: Any = 0
    transcendentals: Any = 0


def _results(eqn: JaxprEqn) -> Any:
    return sum(math.prod(v.aval.shape) for v in eqn.outvars)


def per_result(eqn: JaxprEqn) -> Cost:
    """One operation for each element of the results."""
    return Cost(flops=_results(eqn))


def per_operand(eqn: JaxprEqn) -> Cost:
    """One operation for each element of the first operand, as in a reduction."""
    return Cost(flops=math.prod(eqn.invars[0].aval.shape))


def free(eqn: JaxprEqn) -> Cost:
    """Nothing is computed: elements are moved."""
    return Cost()


def transcendental(eqn: JaxprEqn) -> Cost:
    """One elementary function for each element of the results."""
    return Cost(transcendentals=_results(eqn))


def comparisons(eqn: JaxprEqn) -> Cost:
    """Those of a sort: about n log2(n), where n is known."""
    size = math.prod(eqn.invars[0].aval.shape)
    return Cost(flops=size * (max(1, size.bit_length()) if isinstance(size, int) else 16))
