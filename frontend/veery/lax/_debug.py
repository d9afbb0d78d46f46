"""Functions that show values of traced functions while they run: `debug.callback` and `debug.print`."""

from __future__ import annotations

import logging
import string
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery._core import effects, source
from veery._core.avals import aval_of, maybe_aval_of
from veery._core.primitive import Primitive
from veery._transforms.batching import batch_size
from veery.lax._callback import Callback, flatten_arguments, run_now

logger = logging.getLogger("veery.debug")


@source.api_boundary
def debug_callback(
    callback: Callable[..., Any] | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    **kwargs: Any,
) -> Any:
    """Call a Python function to look at values, also within traced functions.

    It does not change what is computed: derivatives pass it by (it sees the primal values), `vmap` calls it for each
    element, and it is called again where values are computed again (`checkpoint`).

    Args:
        callback: the function; what it returns is ignored. Without it, a function of a callback and its arguments.
        *args: pytrees for the function. Their arrays arrive as arrays on the CPU, other leaves as they are.
        ordered: whether it comes after the ordered debugging callbacks before it.
        partitioned: accepted for compatibility.
        **kwargs: further pytrees.

    Raises:
        TypeError: callback cannot be called.

    What the function raises surfaces where results of the program are read, or in `veery.effects_barrier()`.

    >>> import veery, veery.numpy as jnp
    >>> seen = []
    >>> y = veery.jit(lambda x: (veery.debug.callback(seen.append, x.sum()), 2 * x)[1])(jnp.arange(3.0))
    >>> veery.effects_barrier()
    >>> seen
    [Array(3., dtype=float32)]
    """
    if callback is not None:
        return _bind(debug_callback_p, callback, args, kwargs, ordered)
    if args or kwargs:
        raise TypeError(f"debug_callback received unexpected arguments in the two-call form: {args=} {kwargs=}")
    return lambda callback, *args, **kwargs: _bind(debug_callback_p, callback, args, kwargs, ordered)


@source.api_boundary
def debug_print(
    fmt: str | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    _use_logging: bool = False,
    **kwargs: Any,
) -> Any:
    """Print values, also within traced functions.

    Args:
        fmt: what to print, as for `str.format`; no f-string, since the values come later. Without it, a function of a
            format string and its arguments.
        *args: values for the format string.
        ordered: whether it comes after the ordered debugging callbacks before it.
        partitioned: accepted for compatibility.
        skip_format_check: whether arguments that the format string does not use are allowed.
        **kwargs: values by name.

    Raises:
        ValueError: an argument is not used by the format string.
        KeyError, IndexError: the format string names a value that is not given.

    >>> import veery, veery.numpy as jnp
    >>> f = veery.jit(lambda x: veery.debug.print("x is {x}, its sum {:.1f}", x.sum(), x=x))
    >>> f(jnp.arange(3)); veery.effects_barrier()
    x is [0 1 2], its sum 3.0
    """

    def show(fmt: str, *args: Any, **kwargs: Any) -> None:
        if not skip_format_check:
            _FormatCheck().vformat(fmt, args, kwargs)
        _bind(debug_print_p, Printer(fmt, _use_logging), args, kwargs, ordered)

    if fmt is not None:
        return show(fmt, *args, **kwargs)
    if args or kwargs:
        raise TypeError(f"debug_print received unexpected arguments in the two-call form: {args=} {kwargs=}")
    return show


def debug_log(fmt: str | None = None, *args: Any, **kwargs: Any) -> Any:
    """Like `print`, as a record of the logger "veery.debug"; arguments as there."""
    return debug_print(fmt, *args, _use_logging=True, **kwargs)


class Printer:
    """Prints a format string with NumPy's print options of the time when it was made."""

    def __init__(self, fmt: str, to_log: bool):
        self.fmt = fmt
        self.options = np.get_printoptions()
        self.to_log = to_log
        # without placeholders the values follow the text
        self.plain = all(field is None for _, field, _, _ in string.Formatter().parse(fmt))

    def __repr__(self) -> str:
        return repr(self.fmt)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        with np.printoptions(**self.options):
            text = " ".join((self.fmt, *map(str, args))) if self.plain and args else self.fmt.format(*args, **kwargs)
        if self.to_log:
            logger.info(text)
        else:
            sys.stdout.write(text + "\n")


class _FormatCheck(string.Formatter):
    """Checks that a format string and its arguments belong together; formats nothing."""

    def format_field(self, value: Any, format_spec: str) -> str:
        return ""

    def check_unused_args(self, used_args: Any, args: Sequence[Any], kwargs: Any) -> None:
        positional = [x for i, x in enumerate(args) if i not in used_args]
        named = [name for name in kwargs if name not in used_args]
        if positional:
            raise ValueError(f"Unused positional arguments to `jax.debug.print`: {positional}")
        if named:
            raise ValueError(
                f"Unused keyword arguments to `jax.debug.print`: {named}. You may be passing an f-string (i.e, "
                '`f"{x}"`) into `jax.debug.print` and instead should pass in a regular string.'
            )


def _bind(primitive: Primitive, function: Any, args: tuple, kwargs: dict[str, Any], ordered: bool) -> None:
    if not callable(function):
        raise TypeError(
            f"first argument to jax.debug.callback must be callable, but got an object of type {type(function)}"
        )
    leaves, in_tree = flatten_arguments(args, kwargs)
    static = {i: x for i, x in enumerate(leaves) if maybe_aval_of(x) is None}
    arrays = [x for i, x in enumerate(leaves) if i not in static]
    callback = Callback(_KINDS[primitive.name], function, in_tree, [aval_of(x) for x in arrays], static)
    primitive.bind(*arrays, callback=callback, ordered=bool(ordered))


_KINDS = {"debug_callback": "debug.callback", "debug_print": "debug.print"}


# Rules.


def _impl(*args: Any, callback: Callback, ordered: bool) -> list[Any]:
    run_now(callback, args, pure=False)
    return []


def _debug_primitive(name: str) -> Primitive:
    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[list, list]:
        return primitive.bind(*primals, **params), []

    def batch(
        args: Sequence[Any], dims: Sequence[int | None], *, callback: Callback, ordered: bool
    ) -> tuple[list, list]:
        callback = callback.for_each(batch_size(args, dims), dims)
        return primitive.bind(*args, callback=callback, ordered=ordered), []

    primitive = Primitive(
        name,
        multiple_results=True,
        abstract_eval=lambda *avals, **_: [],
        effects=lambda *avals, ordered, **_: {effects.ordered_debug_effect if ordered else effects.debug_effect},
        impl=_impl,
        jvp=jvp,
        transpose=lambda cts, *operands, **_: [None] * len(operands),
        batch=batch,
    )
    return primitive


debug_callback_p = _debug_primitive("debug_callback")
debug_print_p = _debug_primitive("debug_print")
