"""Exceptions: their types are JAX's, their messages say what happened, to which value, where, and the way out."""

from __future__ import annotations

import functools
import gc
import sys
import types
from collections.abc import Sequence
from typing import Any

from veery._core import source


class JAXTypeError(TypeError):
    """A TypeError about tracing."""


class JAXIndexError(IndexError):
    """An IndexError about tracing."""


class JaxprTypeError(TypeError):
    """A jaxpr whose types do not agree."""


class JaxRuntimeError(RuntimeError):
    """The compiler or the device failed."""


@functools.cache
def _callback_error_class(kind: type[Exception]) -> type[Exception]:
    def __str__(self: Any) -> str:
        return f"{kind.__name__}: {kind.__str__(self)}"

    names = {"__module__": JaxRuntimeError.__module__, "__doc__": JaxRuntimeError.__doc__, "__str__": __str__}
    # JaxRuntimeError is of its own bases already, RuntimeError and Exception, which cannot come before it.
    bases = (JaxRuntimeError,) if issubclass(JaxRuntimeError, kind) else (kind, JaxRuntimeError)
    return type(JaxRuntimeError.__name__, bases, names)


def callback_error(error: BaseException) -> BaseException:
    """The exception of a callback as it surfaces: a JaxRuntimeError, as in JAX, and of the exception's class too."""
    if isinstance(error, JaxRuntimeError) or not isinstance(error, Exception):
        return error
    kind = _callback_error_class(type(error))  # type: ignore[arg-type]
    surfacing = kind.__new__(kind, *error.args)
    surfacing.__dict__.update(error.__dict__)
    return surfacing


class IndivisibleError(ValueError):
    """A dimension that cannot be divided into the pieces of a sharding."""


class PermutationError(ValueError, AssertionError):
    """No permutation of an axis' positions: JAX raises the one for devices, the other under `vmap`."""


class DuplicateSpecError(Exception):
    """A PartitionSpec that names a mesh axis twice."""


class ShardingTypeError(Exception):
    """An operation whose result cannot be divided over Explicit axes as its operands are, or in several ways."""


class VerificationError(Exception):
    """A compiled program returned something else than the reference evaluation.

    Attributes:
        program: the name of the function that was compiled.
        equation: the first equation that differs, as text with the user's line; "" if only the whole program does.
        path: the file that reproduces it.
    """

    def __init__(self, message: str, program: str = "", equation: str = "", path: str = ""):
        super().__init__(message)
        self.program = program
        self.equation = equation
        self.path = path


class InconclusiveDimensionOperation(Exception):
    """An operation on symbolic dimensions that has no answer for all their values."""


def _type_of(tracer: Any) -> str:
    aval = tracer.aval
    return aval.str_short(short_dtypes=False) if hasattr(aval, "str_short") else str(aval)


def _traced_value(tracer: Any) -> str:
    return f"traced array with shape {_type_of(tracer)}"


def _staged(tracer: Any) -> Any | None:
    """The tracer of a jaxpr under construction inside `tracer`, which may wrap it for a derivative or a vmap."""
    for _ in range(100):
        if not hasattr(tracer, "_trace"):
            return None
        if hasattr(tracer, "_var") and hasattr(tracer._trace, "debug_info"):
            return tracer
        tracer = getattr(tracer, "primal", None) if hasattr(tracer, "primal") else getattr(tracer, "val", None)
    return None


def _arguments_behind(tracer: Any) -> list[str]:
    """The names of the traced function's arguments that the value depends on."""
    trace = tracer._trace
    names = trace.debug_info.arg_names
    if names is None:
        return []
    needed = {tracer._var}
    for eqn in reversed(trace.eqns):
        if not needed.isdisjoint(eqn.outvars):
            needed.update(atom for atom in eqn.invars if not hasattr(atom, "val"))
    return [name for var, name in zip(trace.invars, names) if var in needed and name is not None]


def _traced_function(tracer: Any) -> str:
    """The function that was being traced: "f at file:line for jit"."""
    debug = tracer._trace.debug_info
    place = f" at {debug.file}:{debug.line}" if debug.file else ""
    return f"{debug.name}{place} for {getattr(debug, 'traced_for', None) or 'jit'}"


def origin(tracer: Any) -> str:
    """Sentences on where a traced value comes from and where the program is now; for the end of a message."""
    staged = _staged(tracer)
    sentences = [f"It happened at {place}."] if (place := str(source.current())) != "<unknown>" else []
    if staged is not None:
        sentences.append(f"The error occurred while tracing the function {_traced_function(staged)}.")
        if arguments := _arguments_behind(staged):
            plural = "s" if len(arguments) > 1 else ""
            sentences.append(
                "This concrete value was not available in Python because it depends on the "
                f"value{plural} of the argument{plural} {', '.join(arguments)}."
            )
    made = getattr(tracer, "source_info", None) or getattr(staged, "source_info", None)
    if made is not None:
        sentences.append(f"The value was computed at {made}.")
    return " ".join(sentences)


def _message(*lines: str) -> str:
    return "\n".join(line for line in lines if line)


class ConcretizationTypeError(JAXTypeError):
    """A traced value was used where Python needs its value: a shape, a Python number, a static argument.

    Args:
        tracer: the traced value.
        context: a sentence on what needed the value.
    """

    def __init__(self, tracer: Any, context: str = ""):
        super().__init__(
            _message(
                f"Abstract tracer value encountered where concrete value is expected: {_traced_value(tracer)}",
                context,
                origin(tracer),
                "Make the argument static (`jit(f, static_argnums=...)`), or compute with arrays only.",
            )
        )


class TracerBoolConversionError(ConcretizationTypeError):
    """A traced value decided an `if`, a `while`, an `and`, an `assert`."""

    def __init__(self, tracer: Any):
        JAXTypeError.__init__(
            self,
            _message(
                f"Attempted boolean conversion of {_traced_value(tracer)}.",
                origin(tracer),
                "Python's control flow needs the value now. Choose with `veery.numpy.where` or `veery.lax.cond`, loop "
                "with `veery.lax.while_loop`, combine conditions with `&` and `|`, or make the argument static.",
            ),
        )


class TracerArrayConversionError(JAXTypeError):
    """NumPy asked a traced value for its elements."""

    def __init__(self, tracer: Any):
        super().__init__(
            _message(
                f"The numpy.ndarray conversion method __array__() was called on {_traced_value(tracer)}.",
                origin(tracer),
                "Call the function of the same name in `veery.numpy` instead of NumPy's.",
            )
        )


class TracerIntegerConversionError(JAXTypeError):
    """A traced value was used as an index into a Python sequence or as a size."""

    def __init__(self, tracer: Any):
        super().__init__(
            _message(
                f"The __index__() method was called on {_traced_value(tracer)}.",
                origin(tracer),
                "To index a list by a traced value, make the list an array: `veery.numpy.array(values)[i]`. To use it "
                "as a size or an axis, make the argument static (`static_argnums`).",
            )
        )


class NonConcreteBooleanIndexError(JAXIndexError):
    """A traced boolean mask was used as an index: the result's shape would depend on values."""

    def __init__(self, tracer: Any):
        super().__init__(
            _message(
                f"Array boolean indices must be concrete; got {_type_of(tracer)}.",
                origin(tracer),
                "The shape of the result would depend on the mask's values. Use `veery.numpy.where(mask, x, y)`, or "
                "give `veery.numpy.where` and `nonzero` a `size`.",
            )
        )


class UnexpectedTracerError(JAXTypeError):
    """A traced value outlived the function it was made in."""


def leaked_tracer_error(tracer: Any, where: str = "") -> UnexpectedTracerError:
    """The error for a tracer that is used after its transformation has ended.

    Args:
        tracer: the traced value.
        where: what used it, e.g. "the operation add".
    """
    staged = _staged(tracer)
    made = getattr(tracer, "source_info", None) or getattr(staged, "source_info", None)
    return UnexpectedTracerError(
        _message(
            "Encountered an unexpected tracer. A function transformed by veery had a side effect, allowing for a "
            f"reference to an intermediate value with type {_type_of(tracer)} wrapped in a {type(tracer).__name__} to "
            "escape the scope of the transformation.",
            f"It was used in {where}." if where else "",
            f"The use is at {place}." if (place := str(source.current())) != "<unknown>" else "",
            ""
            if staged is None
            else f"The function being traced when the value leaked was {_traced_function(staged)}.",
            f"The leaked intermediate value was created on line {made}." if made is not None else "",
            "Transformed functions must return their results, not store intermediate values outside. To catch the "
            "leak where it happens, use the `veery.checking_leaks` context manager or set VEERY_CHECK_TRACER_LEAKS.",
        )
    )


def leaked_tracers_error(tracers: Sequence[Any]) -> UnexpectedTracerError:
    """The error for tracers that are still referred to when their transformation has ended."""
    trace = tracers[0]._trace
    return UnexpectedTracerError(
        f"Leaked trace {trace}. Leaked tracer(s):\n\n"
        + "\n\n".join(_message(repr(x), origin(x), *_holders(x)) for x in tracers)
        + "\n\nTransformed functions must return their results, not store intermediate values outside."
    )


def _holders(x: Any) -> list[str]:
    """What refers to a leaked tracer: its container and, where it is a module's, that one's name."""
    found = []
    for holder in gc.get_referrers(x):
        if isinstance(holder, (list, tuple, dict, set, types.CellType)) and holder is not globals():
            name = _module_name(holder)
            found.append(f"It is referred to by a {type(holder).__name__}" + (f", {name}." if name else "."))
    return found


def _module_name(value: Any) -> str | None:
    """The name of a global variable that holds the value."""
    for module in list(sys.modules.values()):
        for name, x in list(vars(module).items()) if module is not None else ():
            if x is value:
                return f"{module.__name__}.{name}"
    return None


class KeyReuseError(JAXTypeError):
    """A random key was used twice while `jax_debug_key_reuse` is on."""


for _error in list(globals().values()):
    if isinstance(_error, type) and issubclass(_error, Exception):
        _error.__module__ = "veery.errors"
