"""The user's place, the name stack, filtered tracebacks."""

import os
import pickle
import subprocess
import sys
import textwrap
import threading
import traceback

import numpy as np
import pytest

import veery
from veery._core import source
from veery._core.config import config


def here():
    return source.current()


def library(name="library.py", folder="frontend/veery"):
    """A function `call(f)` that stands in a file of veery."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(source.__file__)))
    filename = os.path.join(os.path.dirname(root), folder, name)
    namespace = {"source": source}
    exec(
        compile("def call(f):\n    return f()\ndef place():\n    return source.current()\n", filename, "exec"),
        namespace,
    )
    return namespace


def test_current_is_the_users_line():
    info = here()
    assert info.file == __file__ and info.function == "here" and info.line == here.__code__.co_firstlineno + 1
    assert info.column == 12 and str(info) == f"{__file__}:{info.line} (here)"


@pytest.mark.parametrize("folder", ["frontend/veery/lax", "lowering/veery_lowering", "runtime/veery_runtime"])
def test_frames_of_the_three_packages_are_skipped(folder):
    info = library(folder=folder)["place"]()
    assert info.file == __file__


def test_without_a_user_frame():
    result = []
    thread = threading.Thread(target=lambda: None)
    thread.run = lambda: result.append(library()["place"]())
    thread.start()
    thread.join()
    assert source.UNKNOWN.file == "<unknown>" and source.UNKNOWN.line == 0 and str(source.UNKNOWN) == "<unknown>"
    assert isinstance(result[0], source.SourceInfo)


def test_source_infos_travel():
    info = here().replace("a/b")
    copy = pickle.loads(pickle.dumps(info))
    assert (copy.file, copy.line, copy.column, copy.function, copy.name_stack, str(copy)) == (
        *(info.file, info.line, info.column, info.function, "a/b", str(info)),
    )
    assert copy.replace("c").name_stack == "c" and copy.replace("c").line == info.line


def test_place_of_a_function():
    import functools

    info = source.of_function(functools.partial(here))
    assert info.file == __file__ and info.line == here.__code__.co_firstlineno and info.function == "here"
    assert source.of_function(len) is source.UNKNOWN


def test_named_scopes_nest():
    with source.named_scope("a"), source.named_scope("b"):
        assert source.current_name_stack() == here().name_stack == "a/b"
    assert source.current_name_stack() == ""

    @source.named_scope("f")
    def recursive(n):
        return recursive(n - 1) if n else source.current_name_stack()

    assert recursive(2) == "f/f/f"
    with pytest.raises(TypeError, match="name argument must be a string"):
        source.named_scope(3)


def test_name_stacks_end_with_an_exception_and_are_per_thread():
    with pytest.raises(KeyError), source.named_scope("a"):
        thread_names = []
        thread = threading.Thread(target=lambda: thread_names.append(source.current_name_stack()))
        thread.start()
        thread.join()
        assert thread_names == [""]
        raise KeyError
    assert source.current_name_stack() == ""


def test_equations_keep_their_place_under_the_names_around():
    with source.named_scope("inner"):
        info = here()
    with source.named_scope("outer"), source.use(info):
        now = source.current()
        assert now.line == info.line and now.name_stack == "outer/inner"
        with source.named_scope("rule"):
            assert source.current().name_stack == "outer/inner/rule"
        with source.fresh():
            assert here().function == "here" and here().name_stack == ""
        with source.use(None):
            assert source.current().line == info.line
    assert source.current_name_stack() == "" and here().line == here.__code__.co_firstlineno + 1


def fail():
    raise ValueError("the cause")


def frames(mode):
    """The names of the functions in the traceback of an error that passed two boundaries."""
    inner = library()["call"]
    boundary = source.api_boundary(inner)
    config.update("jax_traceback_filtering", mode)
    try:
        with pytest.raises(ValueError, match="the cause") as caught:
            boundary(lambda: boundary(fail))
    finally:
        config.update("jax_traceback_filtering", "auto")
    return [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)], caught.value


def test_boundaries_remove_veerys_frames():
    names, error = frames("quiet_remove_frames")
    assert names == ["frames", "<lambda>", "fail"]
    assert len(error.__notes__) == 1 and "VEERY_TRACEBACK_FILTERING=off" in error.__notes__[0]
    assert error.__cause__ is None


def test_the_cause_may_have_all_frames():
    names, error = frames("remove_frames")
    assert names == ["frames", "<lambda>", "fail"] and not hasattr(error, "__notes__")
    assert "ValueError: the cause" in str(error.__cause__)
    every = [frame.name for frame in traceback.extract_tb(error.__cause__.__traceback__)]
    assert every == [name for name in frames("off")[0] if name != "frames"]


def test_boundaries_can_leave_all_frames():
    for mode in ("off", "tracebackhide"):
        names, error = frames(mode)
        assert names.count("boundary") == 2 and names.count("call") == 2 and not hasattr(error, "__notes__")


def test_causes_are_filtered_too():
    call = library()["call"]

    def raise_from():
        try:
            call(fail)
        except ValueError as error:
            raise KeyError from error

    with pytest.raises(KeyError) as caught:
        source.api_boundary(call)(raise_from)
    cause = caught.value.__cause__
    assert [frame.name for frame in traceback.extract_tb(cause.__traceback__)] == ["raise_from", "fail"]


def test_the_uncaught_traceback_shows_the_users_lines_alone():
    code = """
        from veery._core import tree
        from veery._core.source import api_boundary
        api_boundary(tree.tree_map)(lambda x: 1 / x, [0])
    """
    result = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert "tree.py" not in result.stderr and "source.py" not in result.stderr
    assert 'File "<string>", line 4' in result.stderr and "ZeroDivisionError" in result.stderr


def test_an_error_in_a_jitted_function_shows_the_users_lines_alone():
    @veery.jit
    def fail_on_purpose(x):
        return veery.numpy.dot(x, np.ones(7))

    with pytest.raises(TypeError) as caught:
        fail_on_purpose(np.ones(3))
    assert caught.value.__context__ is None and caught.value.__cause__ is None
    here = "test_an_error_in_a_jitted_function_shows_the_users_lines_alone"
    assert [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)] == [here, "fail_on_purpose"]
