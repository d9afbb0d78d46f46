"""Functions whose compiled programs are compared with a reference evaluation at each call."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from veery._api.jit import JitFunction, jit
from veery._core import source
from veery._core.config import verify as setting, verify_beside


def verify(fun: Callable[..., Any], *, beside: str | Sequence[str] | None = None) -> Callable[..., Any]:
    """Compare what the compiled program of a function returns with an evaluation in float64 by NumPy and SciPy.

    The reference shares no formula with the compiler. By how much results may differ follows the conditioning of the
    function: it is evaluated again with random errors of the size that rounding has in the dtype of each result. What
    lies behind a jump that rounding reaches (a comparison, `floor`, an order) is not compared. Random bits, integers
    and bools must be equal. Every program that runs within the call is verified, those of eager operations too.
    An `io_callback` is called once; the reference goes on with what the program got.

    With `beside="xla"` XLA compiles and runs every program too (see `veery.devices("xla")`). If there is a difference
    then, the error says which of the reference and the two compilers agree, and who is alone. A program with an
    `io_callback` runs on its own device only.

    `config.update("veery_verify", "first")`, or VEERY_VERIFY=first in the environment, verifies the first call of every
    program of a process; `veery_verify_beside` or VEERY_VERIFY_BESIDE=xla names the platforms beside.

    Args:
        fun: the function; it is compiled by `jit` if it is not already.
        beside: a platform, or several, on whose first device programs run too, such as "xla", or "cpu" for what runs
            elsewhere; what the setting says if not given.

    Returns:
        A function with the same arguments and results.

    Raises:
        VerificationError: (by the function returned) results differ, or one of the platforms refuses the program. The
            message names the first equation that does with the line of the program, the values and the bound. A Python
            file that reproduces it is written into the working directory, or into the folder VEERY_VERIFY_DIR.
        RuntimeError: (by the function returned) a platform has no device, as without a plugin for XLA.

    >>> import veery, veery.numpy as jnp
    >>> def step(w, x, y):
    ...     return w - 0.1 * veery.grad(lambda w: jnp.mean((x @ w - y) ** 2))(w)
    >>> veery.debug.verify(step)(jnp.zeros(2), jnp.eye(2), jnp.ones(2))
    Array([0.1, 0.1], dtype=float32)
    """
    compiled = fun if isinstance(fun, JitFunction) else jit(fun)
    platforms = beside if beside is None or isinstance(beside, str) else ",".join(beside)
    verify_beside(platforms or "")  # which checks it

    @functools.wraps(fun)
    @source.api_boundary
    def verified(*args: Any, **kwargs: Any) -> Any:
        others = verify_beside.value if platforms is None else platforms
        with setting("always"), verify_beside(others):
            return compiled(*args, **kwargs)

    return verified
