"""The exceptions' types and what their messages name."""

from types import SimpleNamespace

import pytest

import veery.errors
from veery._core import errors, source


class Aval:
    def str_short(self, short_dtypes=True):
        return "float32[3]"


def traced(function="f", arg_names=("x", "y")):
    """A traced value x * 2 of a function f(x, y)."""
    x, y, out = object(), object(), object()
    eqn = SimpleNamespace(invars=[x, SimpleNamespace(val=2)], outvars=[out])
    debug = SimpleNamespace(name=function, file="model.py", line=7, arg_names=arg_names)
    trace = SimpleNamespace(invars=[x, y], eqns=[eqn], debug_info=debug)
    return SimpleNamespace(aval=Aval(), _var=out, _trace=trace, source_info=source.current())


def test_inheritance():
    assert issubclass(errors.ConcretizationTypeError, errors.JAXTypeError)
    assert issubclass(errors.TracerBoolConversionError, errors.ConcretizationTypeError)
    for error in (errors.TracerArrayConversionError, errors.TracerIntegerConversionError, errors.UnexpectedTracerError):
        assert issubclass(error, errors.JAXTypeError) and not issubclass(error, errors.ConcretizationTypeError)
    assert issubclass(errors.KeyReuseError, errors.JAXTypeError) and issubclass(errors.JAXTypeError, TypeError)
    assert issubclass(errors.NonConcreteBooleanIndexError, errors.JAXIndexError)
    assert issubclass(errors.JAXIndexError, IndexError) and issubclass(errors.JaxRuntimeError, RuntimeError)
    assert veery.errors.JaxRuntimeError.__module__ == "veery.errors"


@pytest.mark.parametrize(
    "make, words",
    [
        (errors.ConcretizationTypeError, "Abstract tracer value encountered where concrete value is expected"),
        (errors.TracerBoolConversionError, r"Attempted boolean conversion of traced array with shape float32\[3\]"),
        (errors.TracerArrayConversionError, r"conversion method __array__\(\) was called on traced array with shape"),
        (errors.TracerIntegerConversionError, r"The __index__\(\) method was called on traced array with shape"),
        (errors.NonConcreteBooleanIndexError, r"Array boolean indices must be concrete; got float32\[3\]"),
    ],
)
def test_messages_name_the_value_the_function_and_the_line(make, words):
    with pytest.raises(Exception, match=words) as caught:
        raise make(traced())
    message = str(caught.value)
    assert f"{__file__}:" in message  # the user's line
    assert "while tracing the function f at model.py:7 for jit" in message
    assert "depends on the value of the argument x." in message
    assert any(way_out in message for way_out in ("static", "veery.numpy"))


def test_context_of_a_concretization():
    error = errors.ConcretizationTypeError(traced(), "The problem arose with the `float` function.")
    assert "The problem arose with the `float` function." in str(error)


def test_wrapped_tracers_name_the_function_too():
    wrapped = SimpleNamespace(
        aval=Aval(), primal=SimpleNamespace(aval=Aval(), val=traced("g"), _trace=None), _trace=None
    )
    assert "while tracing the function g" in str(errors.TracerBoolConversionError(wrapped))


def test_unknown_arguments_are_left_out():
    assert "argument" not in str(errors.TracerArrayConversionError(traced(arg_names=None))).split("jit.")[1][:40]


def test_leaks_name_both_lines():
    error = errors.leaked_tracer_error(traced(), "the operation add")
    message = str(error)
    assert isinstance(error, errors.UnexpectedTracerError)
    assert "Encountered an unexpected tracer" in message and "It was used in the operation add." in message
    assert message.count(f"{__file__}:") == 2 and "f at model.py:7" in message
    assert "checking_leaks" in message


@pytest.mark.parametrize("kind", [RuntimeError, Exception, ValueError, NotImplementedError, OSError])
def test_errors_of_callbacks_are_of_their_own_class_too(kind):
    error = errors.callback_error(kind("on purpose"))
    assert isinstance(error, kind) and isinstance(error, errors.JaxRuntimeError)
    assert str(error) == f"{kind.__name__}: on purpose"
