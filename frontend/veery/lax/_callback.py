"""Python functions that programs call while they run: `pure_callback` and `io_callback`."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from veery._core import dtypes, effects, provided, source, tree
from veery._core.avals import ShapedArray, aval_of, maybe_aval_of
from veery._core.errors import JaxRuntimeError, callback_error
from veery._core.primitive import Primitive
from veery._core.trace import eval_trace, set_current_trace
from veery._transforms.batching import batch_size, move_batch
from veery.lax import _rng, _shape
from veery.lax._scan import scan

SEQUENTIAL = ("sequential", "sequential_unrolled")
VMAP_METHODS = (*SEQUENTIAL, "expand_dims", "broadcast_all", "legacy_vectorized", None)


class Callback:
    """A Python function of pytrees as a function of flat NumPy arrays, which is what programs call.

    The function itself gets arrays on the CPU. Its exceptions are told where in the user's code it was put into the
    program. `static` has the leaves of its arguments that are no arrays, by position.
    """

    def __init__(
        self,
        kind: str,
        function: Callable[..., Any],
        in_tree: Any,
        avals: Sequence[Any],
        static: dict[int, Any] | None = None,
    ):
        self.kind = kind
        self.function = function
        self.in_tree = in_tree
        self.dtypes = [aval.dtype for aval in avals]
        self.static = static or {}
        self.where = source.current()
        self.mapped: tuple[tuple[int, tuple[int | None, ...]], ...] = ()
        self.returned: list[list[np.ndarray]] | None = None  # what calls return, where that is recorded

    @property
    def __name__(self) -> str:
        return getattr(self.function, "__qualname__", None) or repr(self.function)

    def __repr__(self) -> str:
        return self.__name__

    def for_each(self, size: int, dims: Sequence[int | None]) -> Callback:
        """The callback that calls the function for each element of batches; None stands for what is no batch."""
        batched = copy.copy(self)
        batched.mapped = ((size, tuple(dims)), *self.mapped)
        return batched

    def typed(self, result_avals: Sequence[Any]) -> Typed:
        """The callback with its results checked against these types."""
        return Typed(self, tuple(result_avals))

    def __call__(self, *values: np.ndarray) -> list[Any]:
        """Call the function; returns the leaves of its result."""
        try:
            with provided.backend.on_host(), set_current_trace(eval_trace):
                return self._call_for_each(values) if self.mapped else self._call(values)
        except BaseException as error:
            surfacing = callback_error(error)
            note = f"This happened in {self}, which {self.kind} calls from {self.where}."
            if note not in getattr(surfacing, "__notes__", ()):
                surfacing.add_note(note)
            if surfacing is error:
                raise
            raise surfacing.with_traceback(error.__traceback__) from error.__cause__

    def _call_for_each(self, values: Sequence[np.ndarray]) -> list[Any]:
        """Call the function for each element, the axis of the outermost `vmap` fastest, which is JAX's order."""
        sizes = [size for size, _ in self.mapped]  # that of the outermost first
        for places in itertools.product(*map(range, reversed(sizes))):
            chosen = values
            for (_, dims), i in zip(self.mapped, reversed(places)):
                chosen = [x if d is None else np.take(x, i, d) for x, d in zip(chosen, dims)]
            self._call(chosen)
        return []

    def _call(self, values: Sequence[np.ndarray]) -> list[Any]:
        arrays = [provided.backend.host_array(_of_dtype(x, dtype)) for x, dtype in zip(values, self.dtypes)]
        rest = iter(arrays)
        count = len(arrays) + len(self.static)
        leaves = [self.static[i] if i in self.static else next(rest) for i in range(count)]
        args, kwargs = tree.tree_unflatten(self.in_tree, leaves)
        return tree.tree_leaves(self.function(*args, **kwargs))


def _of_dtype(x: Any, dtype: Any) -> np.ndarray:
    """A value in a dtype: compiled programs pass some as devices hold them."""
    value = np.asarray(x)
    return dtypes.from_stored(value, dtype) if value.dtype == dtypes.stored(dtype) else np.asarray(value, dtype)


@dataclass(frozen=True)
class Typed:
    """A callback whose results are checked against the declared types."""

    callback: Callback
    result_avals: tuple[Any, ...]

    @property
    def __name__(self) -> str:
        return self.callback.__name__

    def __call__(self, *values: np.ndarray) -> list[np.ndarray]:
        """The results, as devices hold them.

        Raises:
            JaxRuntimeError: their number, shapes or dtypes are not those declared.
        """
        results = self.callback(*values)
        expected = len(self.result_avals)
        if len(results) != expected:
            raise self._error(
                f"Mismatched number of outputs from callback. Expected: {expected}, Actual: {len(results)}"
            )
        checked = [self._checked(i, x, aval) for i, (x, aval) in enumerate(zip(results, self.result_avals))]
        if self.callback.returned is not None:
            self.callback.returned.append([x.copy() for x in checked])
        return [dtypes.to_stored(x, x.dtype) for x in checked]

    def _checked(self, i: int, x: Any, aval: Any) -> np.ndarray:
        value = np.asarray(x)
        if value.dtype != aval.dtype:
            try:
                dtypes.check_valid_dtype(value.dtype)
            except TypeError as error:
                raise self._error(str(error)) from None
            value = value.astype(dtypes.canonicalize_dtype(value.dtype), copy=False)
        for what, expected, actual in (
            ("shape", aval.shape, value.shape),
            ("dtype", np.dtype(aval.dtype), value.dtype),
        ):
            if expected != actual:
                raise self._error(
                    f"Incorrect output {what} for return value #{i}: Expected: {expected}, Actual: {actual}"
                )
        return value

    def _error(self, text: str) -> JaxRuntimeError:
        callback = self.callback
        error = JaxRuntimeError(text)
        error.add_note(f"The callback is {callback}, which {callback.kind} calls from {callback.where}.")
        return error


def flatten_arguments(args: tuple, kwargs: dict[str, Any]) -> tuple[list[Any], Any]:
    """The leaves of a callback's arguments and their tree; keys are passed as the words that they consist of."""
    leaves, in_tree = tree.tree_flatten((args, kwargs))
    return [_key_words(x) for x in leaves], in_tree


def _key_words(x: Any) -> Any:
    if isinstance(getattr(maybe_aval_of(x), "dtype", None), dtypes.KeyDType):
        return _rng.random_unwrap_p.bind(x)
    return x


def _result_avals(result_shape_dtypes: Any) -> tuple[list[ShapedArray], Any]:
    leaves, out_tree = tree.tree_flatten(result_shape_dtypes)
    for leaf in leaves:
        dtype = np.dtype(leaf.dtype)
        if dtypes.canonicalize_dtype(dtype) != dtype:
            raise ValueError(
                "result_shape_dtypes cannot specify 64-bit types when `jax_enable_x64` is disabled: got "
                f"{dtype.name}{list(leaf.shape)}"
            )
    return [ShapedArray(tuple(leaf.shape), np.dtype(leaf.dtype)) for leaf in leaves], out_tree


def _checked_leaves(leaves: Sequence[Any], what: str) -> list[ShapedArray]:
    for i, leaf in enumerate(leaves):
        if maybe_aval_of(leaf) is None:
            raise TypeError(
                f"Error interpreting argument to {what} as a JAX value. The problematic value is of type {type(leaf)} "
                f"and was passed to {what} at position {i}."
            )
    return [aval_of(leaf) for leaf in leaves]  # type: ignore[misc]


def _bind(
    primitive: Primitive,
    function: Callable[..., Any],
    result_shape_dtypes: Any,
    args: tuple,
    kwargs: dict[str, Any],
    **params: Any,
) -> Any:
    if not callable(function):
        raise TypeError(f"first argument to {primitive} must be callable, but got an object of type {type(function)}")
    leaves, in_tree = flatten_arguments(args, kwargs)
    callback = Callback(primitive.name, function, in_tree, _checked_leaves(leaves, primitive.name))
    avals, out_tree = _result_avals(result_shape_dtypes)
    outs = primitive.bind(*leaves, callback=callback, result_avals=tuple(avals), **params)
    return tree.tree_unflatten(out_tree, outs)


@source.api_boundary
def pure_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    vmap_method: str | None = None,
    **kwargs: Any,
) -> Any:
    """Call a Python function without side effects, also within traced functions.

    Args:
        callback: the function. It gets arrays on the CPU, and returns arrays that NumPy can take. It may be called
            any number of times, or not at all where nothing needs its result.
        result_shape_dtypes: pytree of what has a shape and a dtype (ShapeDtypeStructs, arrays): the results.
        *args: pytrees of arrays for the function.
        sharding: accepted for compatibility.
        vmap_method: what `vmap` does. "sequential": the function is called for each element, in a loop;
            "sequential_unrolled": the same, written out; "expand_dims": it is called once, with batches, and with what
            is the same for all elements under a new leading axis of size 1; "broadcast_all": this axis has the size
            of the batch; "legacy_vectorized": there is no such axis. None: `vmap` is an error.
        **kwargs: further pytrees of arrays.

    Returns:
        A pytree of arrays like `result_shape_dtypes`.

    Raises:
        ValueError: 64-bit results while `jax_enable_x64` is off; an unknown vmap_method; under differentiation (give
            the function around it a rule with `custom_jvp` or `custom_vjp`).
        RuntimeError: the function returned something else than was declared. This, and what the function itself
            raises, surfaces where the results are read.

    >>> import veery, veery.numpy as jnp, numpy as np
    >>> def sinc(x):
    ...     return veery.pure_callback(np.sinc, veery.typeof(x), x, vmap_method="broadcast_all")
    >>> veery.jit(veery.vmap(sinc))(jnp.arange(3.0)).shape
    (3,)
    """
    if vmap_method not in VMAP_METHODS:
        raise ValueError(f"vmap_method must be on of the allowed methods {list(VMAP_METHODS)}, but got: {vmap_method}")
    return _bind(pure_callback_p, callback, result_shape_dtypes, args, kwargs, vmap_method=vmap_method)


@source.api_boundary
def io_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    ordered: bool = False,
    **kwargs: Any,
) -> Any:
    """Call a Python function with side effects, also within traced functions: exactly once for each execution.

    Args:
        callback: the function. It gets arrays on the CPU, and returns arrays that NumPy can take.
        result_shape_dtypes: pytree of what has a shape and a dtype (ShapeDtypeStructs, arrays): the results. None for
            a function that returns None.
        *args: pytrees of arrays for the function.
        sharding: accepted for compatibility.
        ordered: whether it comes after the ordered callbacks before it, in this call and in earlier ones.
        **kwargs: further pytrees of arrays.

    Returns:
        A pytree of arrays like `result_shape_dtypes`.

    Raises:
        ValueError: under differentiation; under `vmap` if ordered.
        RuntimeError: as for `pure_callback`. Without results, `veery.effects_barrier()` surfaces it.

    >>> import veery, numpy as np
    >>> from veery.experimental import io_callback
    >>> rng = np.random.default_rng(0)
    >>> draw = lambda: rng.random(3).astype(np.float32)
    >>> f = veery.jit(lambda: io_callback(draw, veery.ShapeDtypeStruct((3,), np.float32)))
    >>> bool((f() == f()).any())
    False
    """
    return _bind(io_callback_p, callback, result_shape_dtypes, args, kwargs, ordered=bool(ordered))


# Rules.


def run_now(callback: Callable[..., Any], args: Sequence[Any], pure: bool) -> list[Any]:
    """Evaluate a callback on concrete values, after the effects of what was called before."""
    values = [np.array(provided.backend.as_array(x).to_numpy()) for x in args]
    if not pure:
        provided.backend.effects_happened()
    return callback(*values)


def _impl(*args: Any, callback: Callback, result_avals: Sequence[ShapedArray], **params: Any) -> list[Any]:
    results = run_now(callback.typed(result_avals), args, pure="ordered" not in params)
    values = [dtypes.from_stored(np.array(x), aval.dtype) for x, aval in zip(results, result_avals)]
    return [provided.backend.array_from_numpy(x, aval) for x, aval in zip(values, result_avals)]


def _refuse(message: str) -> Callable[..., Any]:
    def rule(*_: Any, **__: Any) -> Any:
        raise ValueError(message)

    return rule


def sequential_batch(
    primitive: Primitive, args: Sequence[Any], dims: Sequence[int | None], unroll: bool, params: dict[str, Any]
) -> tuple[list[Any], list[int]]:
    """Call the function for each element, in a loop."""
    size = batch_size(args, dims)
    batches = [move_batch(x, d, 0, size) for x, d in zip(args, dims) if d is not None]

    def step(_: tuple, elements: list[Any]) -> tuple[tuple, list[Any]]:
        rest = iter(elements)
        return (), primitive.bind(*(x if d is None else next(rest) for x, d in zip(args, dims)), **params)

    _, outs = scan(step, (), batches, unroll=unroll)
    return outs, [0] * len(outs)


def leading_axes(primitive: Primitive, vmap_method: str | None, size: int) -> tuple[int, ...]:
    """What a method of batching at once puts before the axes of operands that are the same for all elements.

    Raises:
        NotImplementedError: no method was said.
    """
    if vmap_method is None:
        raise NotImplementedError(
            f"vmap is only supported for the {primitive.name} primitive when vmap_method is one of 'sequential', "
            "'sequential_unrolled', 'expand_dims', 'broadcast_all', or 'legacy_vectorized'. Got vmap_method=None."
        )
    return {"expand_dims": (1,), "broadcast_all": (size,), "legacy_vectorized": ()}[vmap_method]


def whole_operands(args: Sequence[Any], dims: Sequence[int | None], size: int, leading: tuple[int, ...]) -> list[Any]:
    """The operands of one call for all elements: batches in front, and what is the same for all with leading axes."""
    return [
        move_batch(x, d, 0, size) if d is not None else _shape.broadcast(x, leading) if leading else x
        for x, d in zip(args, dims)
    ]


def _pure_batch(
    args: Sequence[Any], dims: Sequence[int | None], *, vmap_method: str | None, **params: Any
) -> tuple[list[Any], list[int]]:
    params["vmap_method"] = vmap_method
    if vmap_method in SEQUENTIAL:
        return sequential_batch(pure_callback_p, args, dims, vmap_method == "sequential_unrolled", params)
    size = batch_size(args, dims)
    leading = leading_axes(pure_callback_p, vmap_method, size)
    params["result_avals"] = tuple(a.update(shape=(size, *a.shape)) for a in params["result_avals"])
    outs = pure_callback_p.bind(*whole_operands(args, dims, size, leading), **params)
    return outs, [0] * len(outs)


def _io_batch(
    args: Sequence[Any], dims: Sequence[int | None], *, ordered: bool, **params: Any
) -> tuple[list[Any], list[int]]:
    if ordered:
        raise ValueError("Cannot `vmap` ordered IO callback.")
    return sequential_batch(io_callback_p, args, dims, False, {**params, "ordered": False})


pure_callback_p = Primitive(
    "pure_callback",
    multiple_results=True,
    abstract_eval=lambda *avals, result_avals, **_: list(result_avals),
    impl=_impl,
    jvp=_refuse(
        "Pure callbacks do not support JVP. Please use `jax.custom_jvp` to use callbacks while taking gradients."
    ),
    transpose=_refuse(
        "Pure callbacks do not support transpose. Please use `jax.custom_vjp` to use callbacks while taking gradients."
    ),
    batch=_pure_batch,
)

io_callback_p = Primitive(
    "io_callback",
    multiple_results=True,
    abstract_eval=lambda *avals, result_avals, **_: list(result_avals),
    effects=lambda *avals, ordered, **_: {effects.ordered_io_effect if ordered else effects.io_effect},
    impl=_impl,
    jvp=_refuse("IO callbacks do not support JVP."),
    transpose=_refuse("IO callbacks do not support transpose."),
    batch=_io_batch,
)
