"""Functions of compiled libraries that programs call by name, on the host.

A function is registered with its address, which `ctypes` has of a library that it loaded. What it looks like, one of:

- *With a frame*, `error *f(frame *)`: the frame has arguments and results with shapes and dtypes, and attributes. It is
  XLA's: functions that are compiled with XLA's headers (`XLA_FFI_DEFINE_HANDLER`, up to version 0.3) are called as they
  are, and `veery/ffi.h` in `include_dir()` is all that one in C needs, which then runs in JAX too.
- *Without*, `void f(void *out, const void **in)`: memory alone. It is registered with `api_version=0`, and called with
  `custom_call_api_version=1`.

They are called without Python's lock, row by row arrays being passed where they are. An error that is returned is a
`JaxRuntimeError` where the results are read. Programs call them on the CPU, compiled by IREE and by XLA; artifacts
cannot contain them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from veery import _dispatch
from veery._core.avals import ShapedArray as _ShapedArray
from veery._core.errors import JaxRuntimeError as _JaxRuntimeError
from veery.lax._ffi import (
    attributes_of as _attributes_of,
    call_foreign as _call_foreign,
    ffi_call as ffi_call,
    minor_to_major as _minor_to_major,
)


def register_ffi_target(name: str, fn: Any, platform: str = "cpu", api_version: int = 1, **kwargs: Any) -> None:
    """Make a function of a compiled library known by a name.

    Args:
        name: by which `ffi_call` calls it.
        fn: a PyCapsule with its address (see `pycapsule`), or a dict of such for the stages "instantiate", "prepare",
            "initialize" and "execute". The first is called once for each place with other attributes, the next two
            before each call.
        platform: of the devices that call it. Those of other platforms than "cpu" are never called.
        api_version: 1 for functions with a frame, 0 for those without.
        **kwargs: `traits`, which is accepted for compatibility.

    Raises:
        JaxRuntimeError: another function has this name; `fn` is no capsule, or has no stage "execute"; the function was
            compiled for a later version of the interface; an unknown `api_version`.
        TypeError: other keyword arguments.

    >>> import ctypes, veery, veery.numpy as jnp, numpy as np
    >>> floats = ctypes.POINTER(ctypes.c_float)
    >>> @ctypes.CFUNCTYPE(None, floats, ctypes.POINTER(floats))
    ... def product(out, operands):
    ...     out[0] = operands[0][0] * operands[1][0]
    >>> veery.ffi.register_ffi_target("product", veery.ffi.pycapsule(product), api_version=0)
    >>> call = veery.ffi.ffi_call("product", veery.ShapeDtypeStruct((), np.float32), custom_call_api_version=1)
    >>> call(jnp.float32(2), jnp.float32(3))
    Array(6., dtype=float32)
    """
    if kwargs.keys() - {"traits"}:
        raise TypeError(f"register_ffi_target takes no argument {sorted(kwargs.keys() - {'traits'})[0]!r}")
    _told(_dispatch.foreign().register, name, fn, platform, api_version)


def register_ffi_type(name: str, type_registration: Mapping[str, Any], platform: str = "cpu") -> None:
    """Make the type of the state of a function with stages known, before the function is registered.

    Args:
        name: of the type.
        type_registration: "type_id" is a PyCapsule with the address of its number, which is written there, and
            "type_info", which may be missing, one with that of its functions.
        platform: accepted for compatibility.

    Raises:
        JaxRuntimeError: the name is that of a type with another number.
    """
    _told(_dispatch.foreign().register_type, name, type_registration["type_id"], type_registration.get("type_info"))


def register_ffi_type_id(name: str, obj: Any, platform: str = "cpu") -> None:
    """Raises, as in JAX: `register_ffi_type` took its place."""
    raise ValueError("register_ffi_type_id is not supported: register_ffi_type(name, {'type_id': obj}) takes its place")


def register_ffi_target_as_batch_partitionable(name: str) -> None:
    """Accepted for compatibility: within `shard_map` each device calls the function with its part."""


def pycapsule(funcptr: Any) -> Any:
    """The address of a function in a PyCapsule.

    Args:
        funcptr: a function of a library that ctypes loaded, a callback of ctypes, which must be kept while it may be
            called, or an address.

    >>> import ctypes
    >>> pycapsule(ctypes.CDLL(None).abs)
    <capsule object NULL at ...>
    """
    return _dispatch.foreign().pycapsule(funcptr)


def include_dir() -> str:
    """The folder of the headers for functions in C: `#include "veery/ffi.h"`.

    >>> import os
    >>> os.listdir(os.path.join(include_dir(), "veery"))
    ['ffi.h']
    """
    return str(_dispatch.foreign().INCLUDE)


def ffi_lowering(
    call_target_name: str,
    *,
    operand_layouts: Sequence[Any] | None = None,
    result_layouts: Sequence[Any] | None = None,
    backend_config: Mapping[str, Any] | str | None = None,
    skip_ffi_layout_processing: bool = False,
    **lowering_args: Any,
) -> Callable[..., Any]:
    """A lowering rule for a primitive of the user's own, which calls a function of a compiled library.

    Args:
        call_target_name: by which it was registered.
        operand_layouts: for each operand a Layout, or the axes from the innermost to the outermost; None is row by row.
        result_layouts: the same for each result.
        backend_config: attributes, to which the primitive's parameters are added; a text for functions without frames.
        skip_ffi_layout_processing: whether layouts are not looked at.
        **lowering_args: `has_side_effect`; `operand_output_aliases`, a dict; `api_version`, as
            `custom_call_api_version` of `ffi_call`.

    Returns:
        A rule for `jax.interpreters.mlir.register_lowering`.

    Raises:
        TypeError: other keyword arguments.
    """
    build = build_ffi_lowering_function(
        call_target_name, operand_layouts=operand_layouts, result_layouts=result_layouts,
        backend_config=backend_config, skip_ffi_layout_processing=skip_ffi_layout_processing, **lowering_args,
    )  # fmt: skip
    return lambda ctx, *operands, **params: build(ctx, *operands, **params).results


def build_ffi_lowering_function(
    call_target_name: str,
    *,
    operand_layouts: Sequence[Any] | None = None,
    result_layouts: Sequence[Any] | None = None,
    backend_config: Mapping[str, Any] | str | None = None,
    skip_ffi_layout_processing: bool = False,
    **lowering_args: Any,
) -> Callable[..., Any]:
    """A function for use in lowering rules that emits the call of a function of a compiled library.

    Takes the arguments of `ffi_lowering`. The function takes the rule's context, operands and attributes, and returns
    what has the `results` of the call.
    """
    unknown = lowering_args.keys() - {"has_side_effect", "operand_output_aliases", "api_version"}
    if unknown:
        raise TypeError(f"a call of a foreign function takes no argument {sorted(unknown)[0]!r} here")
    version = lowering_args.get("api_version", 4)
    pure = not lowering_args.get("has_side_effect", False)
    aliases = tuple(sorted((lowering_args.get("operand_output_aliases") or {}).items()))
    if version >= 4 and not isinstance(backend_config, (Mapping, type(None))):
        raise ValueError("When api_version >= 4, backend_config must be a dictionary.")

    def emit(ctx: Any, *operands: Any, **params: Any) -> Any:
        if version < 4 and params:
            raise ValueError(
                "The use of ffi_call attributes requires a custom call API version of at least 4; got "
                f"api_version={version}."
            )
        config = {**backend_config, **params} if isinstance(backend_config, Mapping) else params
        called = functools.partial(
            _call_foreign, target_name=call_target_name, attributes=_attributes_of(config),
            result_avals=tuple(ctx.avals_out), input_layouts=ordered(ctx.avals_in, operand_layouts),
            output_layouts=ordered(ctx.avals_out, result_layouts), input_output_aliases=aliases,
            custom_call_api_version=version,
            legacy_backend_config=backend_config if isinstance(backend_config, str) else None,
        )  # fmt: skip
        called.__name__ = call_target_name  # type: ignore[attr-defined]
        return SimpleNamespace(results=ctx.host_call(called, operands, ctx.avals_out, pure=pure))

    def ordered(avals: Sequence[_ShapedArray], layouts: Sequence[Any] | None) -> tuple[tuple[int, ...], ...]:
        if layouts is None or skip_ffi_layout_processing:
            layouts = (None,) * len(avals)
        return tuple(_minor_to_major(aval.ndim, layout) for aval, layout in zip(avals, layouts, strict=True))

    return emit


def _told(function: Callable[..., None], *args: Any) -> None:
    """Call a function of the runtime; its errors are those that users know."""
    try:
        function(*args)
    except _dispatch.foreign().ForeignError as error:
        raise _JaxRuntimeError(str(error)) from None
