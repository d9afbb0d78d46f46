"""`checkify`: run-time checks of jitted functions, as an error value beside their result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery._api.arguments import wraps
from veery._api.checker import Checker, Failure
from veery._core import dtypes, source, tree
from veery._core.avals import ShapedArray, aval_of, maybe_aval_of
from veery._core.config import config
from veery._core.flat import FlatFunction
from veery._core.trace import Tracer
from veery._core.tree_registry import register_pytree_node
from veery._transforms import staging
from veery._transforms.calls import jit_p
from veery.lax import _bodies, _compare, _fill, _reduce, _shape, _slicing
from veery.lax._check import (
    DivisionByZeroError,
    FailedCheckError,
    JaxException,
    JaxRuntimeError,
    Kind,
    NaNError,
    OOBError,
    Site,
    check_p,
)

ErrorCategory = Kind

user_checks = frozenset({FailedCheckError})
nan_checks = frozenset({NaNError})
index_checks = frozenset({OOBError})
div_checks = frozenset({DivisionByZeroError})
float_checks = nan_checks | div_checks
automatic_checks = float_checks | index_checks
all_checks = automatic_checks | user_checks


class Error:
    """The first check that failed, if any. A pytree, so that jitted functions return it.

    Attributes:
        code: 0, or which check failed (an array of them after vmap).
    """

    def __init__(self, code: Any, payloads: Sequence[Sequence[Any]], positions: Sequence[int], sites: Sequence[Site]):
        self.code = code
        self._payloads = payloads
        self._positions = tuple(positions)
        self._sites = tuple(sites)

    def get(self) -> str | None:
        """The message of the check that failed, None if none did; one line for each element after vmap."""
        codes = np.asarray(self.code)
        lines = []
        for index in np.ndindex(codes.shape):
            if codes[index]:
                message = self._message(int(codes[index]), index)
                lines.append(f"at mapped index {', '.join(map(str, index))}: {message}" if index else message)
        return "\n".join(lines) or None

    def _message(self, code: int, index: tuple[int, ...]) -> str:
        payload = self._payloads[self._positions.index(code - 1)] if code - 1 in self._positions else ()
        return self._sites[code - 1].message([x[index] if index else x for x in payload])

    def throw(self) -> None:
        """Raise JaxRuntimeError if a check failed."""
        check_error(self)

    def get_exception(self) -> JaxException | None:
        """What went wrong, as an exception of the kind of the first check that failed."""
        message = self.get()
        if message is None:
            return None
        codes = np.asarray(self.code)
        return self._sites[int(codes[codes != 0][0]) - 1].kind(message)

    def __repr__(self) -> str:
        return f"Error({'traced' if isinstance(self.code, Tracer) else self.get()})"


register_pytree_node(
    Error,
    lambda e: ((e.code, [list(p) for p in e._payloads]), (e._positions, e._sites)),
    lambda aux, children: Error(*children, *aux),
)

init_error = Error(np.int32(0), [], (), ())


def check(pred: Any, msg: str, *fmt_args: Any, debug: bool = False, **fmt_kwargs: Any) -> None:
    """Require a condition; outside traced functions a failure raises at once, in them `checkify` makes it a value.

    Args:
        pred: scalar bool.
        msg: what to say if it is false; a format string.
        *fmt_args: arrays for the format string.
        debug: whether the check is ignored without checkify.
        **fmt_kwargs: likewise by name.

    Raises:
        JaxRuntimeError: the condition is false.
        TypeError: pred is not a scalar bool.

    >>> import veery
    >>> from veery.experimental import checkify
    >>> def f(x):
    ...     checkify.check(x > 0, "{x} is not positive", x=x)
    ...     return x
    >>> error, _ = veery.jit(checkify.checkify(f))(-1.0)
    >>> error.get()
    '-1.0 is not positive (`check` failed)'
    """
    aval: Any = maybe_aval_of(pred)
    if aval is None or aval.shape or not dtypes.issubdtype(aval.dtype, np.bool_):
        raise TypeError(f"check takes a scalar pred as argument, got {pred}")
    leaves, treedef = tree.tree_flatten((fmt_args, fmt_kwargs))
    for leaf in leaves:
        if maybe_aval_of(leaf) is None:
            raise TypeError(
                f"Formatting arguments to checkify.check need to be PyTrees of arrays, but got {leaf!r} of type "
                f"{type(leaf)}."
            )

    def message(payload: Sequence[Any]) -> str:
        args, kwargs = tree.tree_unflatten(treedef, payload)
        return f"{msg.format(*args, **kwargs)} (`check` failed)"

    message([_example(leaf) for leaf in leaves])  # what does not fit shows at once

    check_p.bind(pred, *leaves, site=Site(FailedCheckError, message), debug=debug)


def _example(x: Any) -> Any:
    """A value of a type, to be formatted."""
    aval: Any = aval_of(x)
    return np.zeros(aval.shape, aval.dtype) if isinstance(aval.dtype, np.dtype) else x


def debug_check(pred: Any, msg: str, *fmt_args: Any, **fmt_kwargs: Any) -> None:
    """A check that counts only within `checkify`; arguments as for `check`."""
    check(pred, msg, *fmt_args, debug=True, **fmt_kwargs)


def check_error(error: Error) -> None:
    """Raise JaxRuntimeError if the error is one; in traced functions, make it a check of the enclosing `checkify`.

    Args:
        error: as `checkify` returned it.
    """
    if not isinstance(error, Error):
        raise ValueError(f"check_error takes an Error as argument, got type {type(error)} instead.")
    if not isinstance(error.code, Tracer):
        message = error.get()
        if message is not None:
            raise JaxRuntimeError(message)
        return
    code: Any = error.code
    size = int(np.prod(np.shape(code)))
    for position, payload in zip(error._positions, error._payloads):
        pred = _compare.ne(code, _fill.full_like(code, position + 1))
        if np.ndim(code):  # an error for each element: the first of them that is one
            pred = _shape.reshape(pred, (size,))
            first = _reduce.argmin(pred, 0, np.int32)
            rows = [_shape.reshape(x, (size, *np.shape(x)[np.ndim(code) :])) for x in payload]
            pred, *payload = [_slicing.dynamic_index_in_dim(x, first, 0, keepdims=False) for x in (pred, *rows)]
        check_p.bind(pred, *payload, site=error._sites[position], debug=False)


def checkify(f: Callable[..., Any], errors: frozenset[ErrorCategory] = user_checks) -> Callable[..., Any]:
    """A function that returns an error value beside its result, instead of raising.

    Args:
        f: a function, which may call `check`, also within jit, vmap, scan, cond and while loops.
        errors: what is checked: `user_checks`, `nan_checks`, `index_checks`, `div_checks`, `float_checks`,
            `automatic_checks`, `all_checks`, or a union of them.

    Returns:
        A function from the arguments of f to (error, result); `error.get()` is a message or None.

    >>> import veery, veery.numpy as jnp
    >>> from veery.experimental import checkify
    >>> error, out = checkify.checkify(jnp.log, errors=checkify.float_checks)(-1.0)
    >>> error.get()
    'nan generated by primitive: log.'
    """
    if not callable(f):
        raise TypeError(f"Expected a callable value, got {f!r}")
    enabled = frozenset(errors)

    @wraps(f)
    @source.api_boundary
    def checked(*args: Any, **kwargs: Any) -> tuple[Error, Any]:
        # arguments keep their values: Python may go by them
        args, kwargs = tree.tree_map(_as_array, (args, kwargs))
        flat = FlatFunction(lambda: f(*args, **kwargs), tree.tree_structure(()))
        with config.checking_indices(OOBError in enabled):
            closed, operands = staging.close_over(staging.stage(flat, []))
        checker, sizes, whole = _functionalized(closed, operands, enabled)
        values = iter(jit_p.bind(*operands, jaxpr=whole, name="checkify"))
        code = next(values)
        payloads = [[next(values) for _ in range(n)] for n in sizes.values()]
        return Error(code, payloads, tuple(sizes), checker.sites), tree.tree_unflatten(flat.out_tree, list(values))

    return checked


def _as_array(x: Any) -> Any:
    """A number as an array; what is none, and what decides in Python, stays as it is."""
    return x if isinstance(x, (bool, str)) else _bodies.as_array(x)


def _functionalized(closed: Any, operands: Sequence[Any], enabled: frozenset[Kind]) -> tuple[Checker, dict, Any]:
    """The jaxpr with checks as results: the code, the values of each site, the outputs."""
    checker = Checker(enabled)
    sizes: dict[int, int] = {}

    def with_error(*xs: Any) -> list[Any]:
        failure = Failure(_fill.full((), 0, np.int32))
        outs = checker.run(closed, xs, failure)
        sizes.update({i: len(p) for i, p in sorted(failure.payloads.items())})
        return [failure.code, *(x for i in sizes for x in failure.payloads[i]), *outs]

    avals: list[ShapedArray] = [aval_of(x) for x in operands]
    return checker, sizes, staging.stage(with_error, avals)
