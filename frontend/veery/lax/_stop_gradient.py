"""An identity that derivatives do not pass."""

from __future__ import annotations

from typing import Any

import numpy as np

from veery._core import dtypes, host, tree
from veery._core.ad import NONDIFFERENTIABLE, Zero
from veery._core.avals import aval_of
from veery._core.primitive import Primitive


def stop_gradient(x: Any) -> Any:
    """The arrays of a pytree, as constants to differentiation.

    Args:
        x: a pytree of arrays.

    Returns:
        The same values; their derivative with respect to anything is zero.

    >>> import veery
    >>> float(veery.grad(lambda x: x * veery.lax.stop_gradient(x))(3.0))
    3.0
    """
    return tree.tree_map(_stop, x)


def _stop(x: Any) -> Any:
    dtype = aval_of(x).dtype
    return stop_gradient_p.bind(x) if dtypes.issubdtype(dtype, np.inexact) else x


stop_gradient_p: Primitive = Primitive(
    "stop_gradient",
    host=host.moves(lambda eqn: lambda x: x),
    abstract_eval=lambda x: x,
    jvp=NONDIFFERENTIABLE,
    transpose=lambda ct, x: [Zero(x.aval)],
    batch=lambda args, dims: (stop_gradient_p.bind(args[0]), dims[0]),
    reference=lambda x: np.array(x),
)
