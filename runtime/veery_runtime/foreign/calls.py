"""Calls of foreign functions with NumPy arrays."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from veery_runtime.foreign import abi
from veery_runtime.foreign.api import Context, ForeignError, State, contexts, futures, taken_error
from veery_runtime.foreign.handlers import STAGES, Handler, find, new_frame

Array = np.ndarray[Any, Any]


class ForeignFunction:
    """A foreign function with the attributes of one place where it is called.

    It is instantiated once, and its state is kept for as long as this object is there.

    Args:
        name: by which it was registered.
        attributes: by name: scalars and arrays of NumPy, texts, and dicts of those.
        input_layouts: of each argument the axes, the one whose elements are closest together first.
        output_layouts: the same of each result.
        aliases: pairs of an argument and the result that is in its memory.

    Raises:
        ForeignError: there is no such function; it fails when it is instantiated.
    """

    def __init__(
        self,
        name: str,
        attributes: Mapping[str, Any],
        input_layouts: Sequence[Sequence[int]],
        output_layouts: Sequence[Sequence[int]],
        aliases: Sequence[tuple[int, int]],
    ) -> None:
        self._handler = find(name, 1)
        self._attributes = _Held()
        self._encoded = self._attributes.dictionary(attributes)
        self._layouts = input_layouts, output_layouts
        self._aliases = {result: argument for argument, result in aliases}
        self._states: dict[int, State] = {}
        self._run("instantiate", new_frame(abi.INSTANTIATE), self._states)

    def __call__(self, arguments: Sequence[Array], results: Sequence[tuple[tuple[int, ...], str]]) -> list[Array]:
        """Call it.

        Args:
            arguments: arrays, which it may not keep. Those that share memory with a result are written to.
            results: their shapes and the names of their dtypes.

        Returns:
            The results.

        Raises:
            ForeignError: what it returned as an error.
        """
        given = [_laid_out(x, layout) for x, layout in zip(arguments, self._layouts[0])]
        made = [
            given[self._aliases[i]] if i in self._aliases else _laid_out_empty(shape, dtype, layout)
            for i, ((shape, dtype), layout) in enumerate(zip(results, self._layouts[1]))
        ]
        held = _Held()
        frame = new_frame(abi.EXECUTE)
        held.buffers(frame.args, given)
        held.buffers(frame.rets, made)
        states = dict(self._states)
        for stage in ("prepare", "initialize", "execute"):
            self._run(stage, frame, states)
        return made

    def _run(self, stage: str, frame: abi.Frame, states: dict[int, State]) -> None:
        address = self._handler.stages.get(stage)
        if address is None:
            return
        frame.stage = STAGES.index(stage)
        frame.attributes = self._encoded
        context = contexts.add(Context(states))
        frame.context = context
        try:
            error = abi.HANDLER(address)(ctypes.addressof(frame))
            if error:
                raise taken_error(error)
            if frame.future:
                _wait(frame.future)
        finally:
            contexts.take(context)


def call_without_frame(
    name: str,
    version: int,
    config: str,
    arguments: Sequence[Array],
    results: Sequence[tuple[tuple[int, ...], str]],
) -> list[Array]:
    """Call a foreign function of the older interface.

    Args:
        name: by which it was registered, with `api_version=0`.
        version: 1 for `void f(void *out, const void **in)`; 2 for one that is given a status in addition; 3 for
            `void f(void *out, const void **in, const char *config, size_t size, status)`.
        config: the text that those of version 3 are given.
        arguments: arrays.
        results: their shapes and the names of their dtypes. `out` is the memory of the one, or points to those of
            several.

    Raises:
        ForeignError: there is no such function; it wrote to its status, which is told by that alone.
    """
    handler: Handler = find(name, 0)
    given = [np.ascontiguousarray(x) for x in arguments]
    made = [np.empty(shape, dtype) for shape, dtype in _named(results)]
    pointers: Any = lambda arrays: (ctypes.c_void_p * len(arrays))(*(x.ctypes.data for x in arrays))
    out = pointers(made)
    first = ctypes.c_void_p(made[0].ctypes.data) if len(made) == 1 else ctypes.cast(out, ctypes.c_void_p)
    values: list[Any] = [first, ctypes.cast(pointers(given), ctypes.c_void_p)]
    status = (ctypes.c_char * 64)()  # XLA's own is 40 bytes
    text = config.encode()
    values += [ctypes.c_char_p(text), ctypes.c_size_t(len(text))] if version == 3 else []
    values += [ctypes.byref(status)] if version > 1 else []
    abi.WITHOUT_FRAME(handler.stages["execute"])(*values)
    if any(status.raw):
        raise ForeignError("INTERNAL", f"{name} reports a failure")
    return made


def _wait(number: int) -> None:
    future = futures.get(number)
    future.done.wait()
    futures.take(number)
    if future.error is not None:
        raise future.error


def _named(results: Sequence[tuple[tuple[int, ...], str]]) -> list[tuple[tuple[int, ...], np.dtype[Any]]]:
    return [(shape, np.dtype(dtype)) for shape, dtype in results]


def _laid_out(x: Array, layout: Sequence[int]) -> Array:
    """The array with its elements in this order."""
    if x.flags.c_contiguous and all(a > b for a, b in zip(layout, layout[1:])):  # row by row, as most are
        return x
    order = tuple(reversed(layout))
    return np.array(x.transpose(order), order="C").transpose(np.argsort(order))


def _laid_out_empty(shape: tuple[int, ...], dtype: str, layout: Sequence[int]) -> Array:
    return _laid_out(np.empty(shape, np.dtype(dtype)), layout)


@functools.cache
def _number(dtype: np.dtype[Any]) -> int:
    return abi.DTYPES[dtype.name]


class _Held:
    """Structs, and the memory that they point to, for as long as this object is there."""

    def __init__(self) -> None:
        self._kept: list[Any] = []

    def _at(self, thing: Any) -> int:
        self._kept.append(thing)
        return ctypes.addressof(thing)

    def _words(self, values: Sequence[int]) -> int:
        return self._at((ctypes.c_void_p * len(values))(*values))

    def buffers(self, values: abi.Values, arrays: Sequence[Array]) -> None:
        """Let arguments or results be these arrays."""
        values.size = len(arrays)
        values.types = self._at((ctypes.c_int * len(arrays))(*([abi.BUFFER] * len(arrays))))
        values.values = self._words([self._buffer(x) for x in arrays])

    def _buffer(self, x: Array) -> int:
        self._kept.append(x)
        dims = self._at((ctypes.c_int64 * x.ndim)(*x.shape))
        size = ctypes.sizeof(abi.Buffer)
        return self._at(abi.Buffer(size, None, _number(x.dtype), x.ctypes.data, x.ndim, dims))

    def dictionary(self, attributes: Mapping[str, Any]) -> abi.Attributes:
        """Attributes as foreign code is given them."""
        names = sorted(attributes, key=str.encode)
        kinds, values = zip(*(self._attribute(attributes[name]) for name in names)) if names else ((), ())
        made = abi.Attributes(
            ctypes.sizeof(abi.Attributes), None, len(names), self._at((ctypes.c_int * len(names))(*kinds)),
            self._words([self._span(name.encode()) for name in names]), self._words(values),
        )  # fmt: skip
        self._kept.append(made)
        return made

    def _attribute(self, value: Any) -> tuple[int, int]:
        if isinstance(value, Mapping):
            return abi.DICTIONARY, ctypes.addressof(self.dictionary(value))
        if isinstance(value, (str, bytes)):
            return abi.STRING, self._span(value.encode() if isinstance(value, str) else value)
        array = np.ascontiguousarray(value)
        self._kept.append(array)
        dtype = _number(array.dtype)
        if isinstance(value, np.ndarray):
            return abi.ARRAY, self._at(abi.Array(dtype, array.size, array.ctypes.data))
        return abi.SCALAR, self._at(abi.Scalar(dtype, array.ctypes.data))

    def _span(self, text: bytes) -> int:
        memory = ctypes.create_string_buffer(text, len(text) + 1)
        return self._at(abi.Span(self._at(memory), len(text)))
