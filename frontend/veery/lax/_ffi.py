"""Foreign functions: functions of compiled libraries that programs call by name."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from veery._core import dtypes, effects, provided, source
from veery._core.avals import AbstractToken, ShapedArray, maybe_aval_of
from veery._core.errors import JaxRuntimeError
from veery._core.primitive import Primitive
from veery._transforms.batching import batch_size
from veery.lax._callback import SEQUENTIAL, VMAP_METHODS, leading_axes, sequential_batch, whole_operands

_WITH_FRAMES = 4  # custom_call_api_version of functions that are called with a frame


@dataclass(frozen=True, repr=False)
class Attribute:
    """The value of an attribute: equal ones have the same dtype, shape and bytes."""

    kind: str  # "string", "dict", "array" or "scalar"
    dtype: str
    shape: tuple[int, ...]
    data: Any

    @property
    def value(self) -> Any:
        """The attribute as foreign functions are given it: NumPy's array or scalar, bytes, or a dict of such."""
        if self.kind == "dict":
            return {name: attribute.value for name, attribute in self.data}
        if self.kind == "string":
            return self.data
        array = np.frombuffer(self.data, self.dtype).reshape(self.shape)
        return array[()] if self.kind == "scalar" else array

    def __repr__(self) -> str:
        if self.kind == "string":
            return repr(self.data.decode(errors="replace"))
        if self.kind == "dict":
            return f"FrozenDict({ {name: attribute for name, attribute in self.data} })"
        if self.kind == "array":
            return f"HashableArray(array({self.value.tolist()}, dtype={self.dtype}))"
        return repr(self.value)


_PYTHON_SCALARS: dict[type, type[np.generic]] = {
    bool: np.bool_, int: np.int64, float: np.float64, complex: np.complex128,
}  # fmt: skip


def attribute(name: str, value: Any) -> Attribute:
    """A keyword argument as an attribute.

    Raises:
        TypeError: it cannot be one.
    """
    if isinstance(value, (str, bytes)):
        return Attribute("string", "", (), value.encode() if isinstance(value, str) else value)
    if isinstance(value, Mapping):
        return Attribute("dict", "", (), attributes_of(value))
    if type(value) in _PYTHON_SCALARS:
        value = _PYTHON_SCALARS[type(value)](value)
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.name in provided.backend.foreign().DTYPES:
        kind = "array" if isinstance(value, np.ndarray) else "scalar"
        return Attribute(kind, value.dtype.name, value.shape, np.ascontiguousarray(value).tobytes())
    if type(value).__hash__ is None and not isinstance(value, np.ndarray):
        raise TypeError(f"Non-hashable keyword argument to ffi_call {name}: {value}")
    raise TypeError(
        f"No attribute handler defined for type: {type(value)}. Attribute {name!r} may be a number, a str, an array of "
        "NumPy (for a sequence of numbers: np.array(...)) or a dict of these"
    )


def attributes_of(values: Mapping[str, Any]) -> tuple[tuple[str, Attribute], ...]:
    """Keyword arguments as attributes, in the order of their names."""
    return tuple((name, attribute(name, values[name])) for name in sorted(values))


def minor_to_major(ndim: int, layout: Any, reverse: bool = False) -> tuple[int, ...]:
    """The axes of an array, the one whose elements are closest together first.

    Args:
        ndim: how many there are.
        layout: a Layout, the axes in either order, or None for arrays row by row.
        reverse: whether the axes are given from the outermost to the innermost.

    Raises:
        ValueError: the layout is not an order of these axes, or has tiles.
    """
    if layout is None:
        return tuple(reversed(range(ndim)))
    if hasattr(layout, "major_to_minor"):
        if layout.tiling is not None:
            raise ValueError("The FFI does not support layouts with tiling")
        layout, reverse = layout.major_to_minor, True
    axes = tuple(map(int, layout))
    if sorted(axes) != list(range(ndim)):
        raise ValueError(f"a layout names each of the {ndim} axes once: got {axes}")
    return axes[::-1] if reverse else axes


def _result_aval(place: int, result: Any) -> ShapedArray:
    if isinstance(result, AbstractToken):
        raise NotImplementedError(
            f"result {place} of ffi_call is a token, which there are none of: has_side_effect=True keeps calls in order"
        )
    if not hasattr(result, "shape") or not hasattr(result, "dtype"):
        raise ValueError(
            "All elements of result_shape_dtypes must have 'shape' and 'dtype' attributes. Got "
            f"{result} at position {place}."
        )
    return _passed(ShapedArray(tuple(result.shape), np.dtype(result.dtype)), f"result {place}")


def _argument_aval(place: int, x: Any) -> ShapedArray:
    aval = maybe_aval_of(x)
    if aval is None:
        raise TypeError(f"Argument '{x}' of type '{type(x)}' is not a valid JAX type")
    return _passed(aval, f"argument {place}")


def _passed(aval: Any, what: str) -> ShapedArray:
    dtype = getattr(aval, "dtype", None)
    if isinstance(dtype, dtypes.KeyDType):
        raise TypeError(f"{what} of ffi_call has keys of random numbers: pass `jax.random.key_data` of them")
    if getattr(dtype, "name", None) not in provided.backend.foreign().DTYPES:
        raise TypeError(
            f"{what} of ffi_call is {aval}: foreign functions get arrays of whole bytes. Convert it first, as to int8"
        )
    return aval  # type: ignore[no-any-return]


def _checked_aliases(
    aliases: Mapping[int, int] | None,
    in_avals: Sequence[ShapedArray],
    out_avals: Sequence[ShapedArray],
    input_layouts: Sequence[tuple[int, ...]],
    output_layouts: Sequence[tuple[int, ...]],
) -> tuple[tuple[int, int], ...]:
    """Pairs of an argument and the result that is in its memory.

    Raises:
        ValueError: there is no such argument or result; their types or layouts differ; two share one result.
    """
    pairs = tuple(sorted((int(i), int(o)) for i, o in (aliases or {}).items()))
    for i, o in pairs:
        start = f"input_output_aliases contains the mapping '{i}:{o}' "
        if not 0 <= i < len(in_avals):
            raise ValueError(f"{start}with input index {i} outside the range [0, {len(in_avals)}).")
        if not 0 <= o < len(out_avals):
            raise ValueError(f"{start}with output index {o} outside the range [0, {len(out_avals)}).")
        if (in_avals[i].shape, in_avals[i].dtype) != (out_avals[o].shape, out_avals[o].dtype):
            raise ValueError(
                f"{start}referring to an input with abstract value {in_avals[i]} and an output with a different "
                f"abstract value {out_avals[o]}."
            )
        if input_layouts[i] != output_layouts[o]:
            raise ValueError(
                f"{start}referring to an input with layout {input_layouts[i]} and an output with a different layout "
                f"{output_layouts[o]}."
            )
    if len({o for _, o in pairs}) < len(pairs):
        raise ValueError(f"input_output_aliases gives one output several inputs: {dict(pairs)}")
    return pairs


def _layouts(layouts: Any, avals: Sequence[ShapedArray], message: str) -> tuple[tuple[int, ...], ...]:
    if layouts is None:
        layouts = (None,) * len(avals)
    if len(layouts) != len(avals):
        raise ValueError(message.format(len(avals), len(layouts)))
    return tuple(minor_to_major(aval.ndim, layout, reverse=True) for aval, layout in zip(avals, layouts))


@source.api_boundary
def ffi_call(
    target_name: str,
    result_shape_dtypes: Any,
    *,
    has_side_effect: bool = False,
    vmap_method: str | None = None,
    input_layouts: Sequence[Any] | None = None,
    output_layouts: Any = None,
    input_output_aliases: dict[int, int] | None = None,
    custom_call_api_version: int = 4,
    legacy_backend_config: str | None = None,
) -> Callable[..., Any]:
    """A function that calls a function of a compiled library, also within traced functions.

    It is called on CPU devices, with the memory of arrays on the host. `jax.ffi` tells what it looks like.

    Args:
        target_name: by which the function was registered, with `jax.ffi.register_ffi_target`.
        result_shape_dtypes: what has a shape and a dtype (ShapeDtypeStructs, arrays), or a sequence of them: the
            results.
        has_side_effect: whether each call counts; others may be merged, or dropped where nothing needs their results.
        vmap_method: what `vmap` does, as with `jax.pure_callback`: "sequential", "sequential_unrolled",
            "expand_dims", "broadcast_all" or "legacy_vectorized". None: `vmap` is an error.
        input_layouts: for each argument the order in which its elements are to be in memory: a Layout, or the axes from
            the outermost to the innermost ((1, 0) is column by column); None is row by row.
        output_layouts: the same for each result, or for the one.
        input_output_aliases: from arguments to results, by their positions, that have the same memory.
        custom_call_api_version: 4 for functions that are called with a frame, which have attributes; 1, 2 or 3 for
            those that were registered with `api_version=0`.
        legacy_backend_config: a text for those of version 3.

    Returns:
        A function of arrays; keyword arguments are attributes: numbers, texts, NumPy arrays and dicts of these, which
        are known when the function is traced. It returns an array, or a sequence of them where `result_shape_dtypes`
        is one.

    Raises:
        ValueError: an unknown `vmap_method`; a result without shape or dtype; layouts or aliases that do not fit;
            under differentiation (give the function around it a rule with `custom_jvp` or `custom_vjp`).
        TypeError: an attribute that cannot be one; arrays of keys, or of elements of less than a byte.
        NotImplementedError: under `vmap`, if `vmap_method` is None.
        JaxRuntimeError: there is no function of this name; what it returns as an error. This surfaces where the
            results are read.

    >>> import ctypes, veery, veery.numpy as jnp, numpy as np
    >>> @ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_float), ctypes.POINTER(ctypes.POINTER(ctypes.c_float)))
    ... def add_one(out, operands):
    ...     out[0] = operands[0][0] + 1
    >>> veery.ffi.register_ffi_target("add_one", veery.ffi.pycapsule(add_one), api_version=0)
    >>> result = veery.ShapeDtypeStruct((), np.float32)
    >>> veery.jit(veery.ffi.ffi_call("add_one", result, custom_call_api_version=1))(jnp.float32(2))
    Array(3., dtype=float32)
    """
    if vmap_method not in VMAP_METHODS:
        raise ValueError(f"vmap_method must be on of the allowed methods {list(VMAP_METHODS)}, but got: {vmap_method}")
    if custom_call_api_version not in (1, 2, 3, 4):
        raise ValueError(f"custom_call_api_version is 1, 2, 3 or 4: got {custom_call_api_version}")
    if custom_call_api_version >= _WITH_FRAMES and legacy_backend_config is not None:
        raise ValueError(
            "The use of the legacy_backend_config parameter requires custom_call_api_version < 4; got "
            f"{custom_call_api_version}."
        )
    several = isinstance(result_shape_dtypes, Sequence)
    results = result_shape_dtypes if several else [result_shape_dtypes]
    out_avals = tuple(_result_aval(i, result) for i, result in enumerate(results))
    out_layouts = output_layouts if several else (output_layouts,)

    @source.api_boundary
    def call(*args: Any, **kwargs: Any) -> Any:
        in_avals = [_argument_aval(i, x) for i, x in enumerate(args)]
        if kwargs and custom_call_api_version < _WITH_FRAMES:
            raise ValueError(
                "The use of ffi_call attributes requires a custom call API version of at least 4; got api_version="
                f"{custom_call_api_version}."
            )
        inputs = _layouts(
            input_layouts, in_avals, "The number of input arguments ({}) must equal the number of input layouts ({})."
        )
        outputs = _layouts(
            out_layouts, out_avals, "The number of outputs ({}) must equal the number of output layouts ({})."
        )
        outs = ffi_call_p.bind(
            *args,
            attributes=attributes_of(kwargs),
            custom_call_api_version=custom_call_api_version,
            has_side_effect=bool(has_side_effect),
            input_layouts=inputs,
            input_output_aliases=_checked_aliases(input_output_aliases, in_avals, out_avals, inputs, outputs),
            legacy_backend_config=legacy_backend_config,
            output_layouts=outputs,
            result_avals=out_avals,
            target_name=target_name,
            vmap_method=vmap_method,
        )
        if not several:
            return outs[0]
        return tuple(outs) if isinstance(result_shape_dtypes, tuple) else outs

    return call


# Rules.


@functools.cache
def _function(target_name: str, attributes: tuple[tuple[str, Attribute], ...], *how: Any) -> Any:
    """The function of a name with its attributes and layouts, with the state that it keeps."""
    return provided.backend.foreign().ForeignFunction(target_name, {k: v.value for k, v in attributes}, *how)


def call_foreign(
    *operands: np.ndarray,
    target_name: str,
    attributes: tuple[tuple[str, Attribute], ...],
    result_avals: Sequence[ShapedArray],
    input_layouts: Any,
    output_layouts: Any,
    input_output_aliases: tuple[tuple[int, int], ...],
    custom_call_api_version: int,
    legacy_backend_config: str | None,
    **_: Any,
) -> list[np.ndarray]:
    """The results of a foreign function for NumPy arrays, given the parameters of `ffi_call_p`."""
    foreign = provided.backend.foreign()
    results = [(aval.shape, aval.dtype.name) for aval in result_avals]
    try:
        if custom_call_api_version < _WITH_FRAMES:
            config = legacy_backend_config or ""
            called = foreign.call_without_frame(target_name, custom_call_api_version, config, operands, results)
        else:
            function = _function(target_name, attributes, input_layouts, output_layouts, input_output_aliases)
            called = function(operands, results)
    except foreign.ForeignError as error:
        raise JaxRuntimeError(str(error)) from None
    return called  # type: ignore[no-any-return]


def _batched_layout(layout: tuple[int, ...]) -> tuple[int, ...]:
    """The layout of an array with a leading axis more, which is the outermost."""
    return (*(axis + 1 for axis in layout), 0)


def _batch(
    args: Sequence[Any], dims: Sequence[int | None], *, vmap_method: str | None, **params: Any
) -> tuple[list[Any], list[int]]:
    params["vmap_method"] = vmap_method
    if vmap_method in SEQUENTIAL:
        return sequential_batch(ffi_call_p, args, dims, vmap_method == "sequential_unrolled", params)
    size = batch_size(args, dims)
    leading = leading_axes(ffi_call_p, vmap_method, size)
    for i, _ in params["input_output_aliases"]:
        if dims[i] is None and vmap_method != "broadcast_all":
            raise NotImplementedError(
                f"vmap of ffi_call with vmap_method={vmap_method!r}: argument {i} is the same for all elements, and a "
                "result is to be in its memory. Use vmap_method='broadcast_all'"
            )
    params["input_layouts"] = tuple(
        layout if d is None and not leading else _batched_layout(layout)
        for layout, d in zip(params["input_layouts"], dims)
    )
    params["output_layouts"] = tuple(map(_batched_layout, params["output_layouts"]))
    params["result_avals"] = tuple(a.update(shape=(size, *a.shape)) for a in params["result_avals"])
    outs = ffi_call_p.bind(*whole_operands(args, dims, size, leading), **params)
    return outs, [0] * len(outs)


def _refuse(*_: Any, target_name: str, **__: Any) -> Any:
    raise ValueError(
        f"The FFI call to `{target_name}` cannot be differentiated. You can use `jax.custom_jvp` or `jax.custom_vjp` "
        "to add support."
    )


ffi_call_p = Primitive(
    "ffi_call",
    multiple_results=True,
    abstract_eval=lambda *avals, result_avals, **_: list(result_avals),
    effects=lambda *avals, has_side_effect, **_: {effects.io_effect} if has_side_effect else set(),
    reference=call_foreign,
    jvp=_refuse,
    transpose=_refuse,
    batch=_batch,
    inert=("vmap_method",),
)
