"""Settings: updates, overrides per thread, the environment, the key of traces."""

import subprocess
import sys
import threading

import pytest

from veery._core import config as config_module
from veery._core.config import config, disable_jit, enable_x64, numpy_rank_promotion


@pytest.fixture(autouse=True)
def restore():
    saved = dict(config_module._global_values)
    yield
    for name, value in saved.items():
        config.update(name, value)


def in_thread(function):
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


def test_update_and_read():
    assert config.jax_enable_x64 is False and config.x64_enabled is False
    config.update("jax_enable_x64", True)
    assert config.jax_enable_x64 is True and config.x64_enabled is True and config.read("jax_enable_x64") is True
    assert config.values["jax_enable_x64"] is True
    assert in_thread(lambda: config.jax_enable_x64) is True


def test_updates_reach_threads_that_run_already():
    ready, go, seen = threading.Event(), threading.Event(), []

    def watch():
        seen.append(config.jax_enable_x64)
        ready.set()
        go.wait(10)
        seen.append(config.jax_enable_x64)

    thread = threading.Thread(target=watch)
    thread.start()
    ready.wait(10)
    config.update("jax_enable_x64", True)
    go.set()
    thread.join()
    assert seen == [False, True]


def test_overrides_are_of_one_thread_and_nest():
    with enable_x64(True):
        assert config.jax_enable_x64 and not in_thread(lambda: config.jax_enable_x64)
        with enable_x64(False):
            assert not config.jax_enable_x64
        assert config.jax_enable_x64
    assert not config.jax_enable_x64


def test_an_override_wins_over_an_update():
    with enable_x64(False):
        config.update("jax_enable_x64", True)
        assert not config.jax_enable_x64 and in_thread(lambda: config.jax_enable_x64)
    assert config.jax_enable_x64


def test_overrides_end_with_an_exception():
    with pytest.raises(KeyError), enable_x64(True):
        raise KeyError
    assert not config.jax_enable_x64


def test_overrides_as_decorators_and_reentered():
    override = enable_x64()
    with override, override:
        assert config.jax_enable_x64
    assert not config.jax_enable_x64

    @enable_x64(True)
    def read():
        return config.jax_enable_x64

    assert read() and read() and not config.jax_enable_x64


def test_states():
    assert enable_x64.value is False and numpy_rank_promotion.value == "allow"
    with disable_jit():
        assert config.jax_disable_jit
    with pytest.raises(TypeError, match="requires an argument representing the new value"):
        numpy_rank_promotion()


@pytest.mark.parametrize("name", ["jax_enable_x65", "enable_x64", "foo"])
def test_unknown_names(name):
    for action in (lambda: config.update(name, True), lambda: config.read(name), lambda: getattr(config, name)):
        with pytest.raises(AttributeError, match=f"Unrecognized config option: {name}"):
            action()


def test_unknown_names_are_answered_with_close_ones():
    with pytest.raises(AttributeError, match="Did you mean jax_enable_x64"):
        config.update("jax_enable_x65", True)


@pytest.mark.parametrize(
    "name, value, words",
    [
        ("jax_enable_x64", "banana", "must be True or False"),
        ("jax_enable_x64", None, "must be True or False"),
        ("jax_numpy_rank_promotion", "x", r"must be in \['allow', 'warn', 'raise'\], got x"),
        ("jax_default_matmul_precision", "x", "must be None or in"),
        ("jax_default_device", 3, "must be passed either a Device object"),
        ("jax_default_device", "foo", "a platform name string like .cpu. or .gpu., got: .foo."),
        ("jax_num_cpu_devices", "x", "must be of type int"),
        ("jax_compilation_cache_dir", 3, "must be None or of type str"),
        ("jax_traceback_filtering", "x", "must be in"),
    ],
)
def test_bad_values(name, value, words):
    with pytest.raises(ValueError, match=words):
        config.update(name, value)


def test_settings_cannot_be_assigned():
    with pytest.raises(AttributeError, match="use config.update"):
        config.jax_enable_x64 = True
    with pytest.raises(AttributeError, match="Unrecognized config option"):
        config.foo = True


def test_the_trace_key_changes_with_what_is_traced_under():
    key = config.trace_key()
    assert hash(key) == hash(config.trace_key()) and config.trace_key() is key
    with enable_x64(True):
        assert config.trace_key() != key
        config.update("jax_log_compiles", True)
    assert config.trace_key() == key
    with numpy_rank_promotion("raise"):
        assert config.trace_key() != key


def environment(setting, expression):
    code = f"from veery._core.config import config; print(config.{expression})"
    return subprocess.run([sys.executable, "-c", code], env=setting, capture_output=True, text=True)


@pytest.mark.parametrize(
    "variables, expression, expected",
    [
        ({"JAX_ENABLE_X64": "1"}, "jax_enable_x64", "True"),
        ({"JAX_ENABLE_X64": "1", "VEERY_ENABLE_X64": "off"}, "jax_enable_x64", "False"),
        ({"VEERY_NUMPY_RANK_PROMOTION": "raise"}, "jax_numpy_rank_promotion", "raise"),
        ({"JAX_NUM_CPU_DEVICES": "4"}, "jax_num_cpu_devices", "4"),
    ],
)
def test_environment(variables, expression, expected):
    assert environment(variables, expression).stdout.strip() == expected


@pytest.mark.parametrize("variable, value", [("JAX_ENABLE_X64", "banana"), ("JAX_NUM_CPU_DEVICES", "x")])
def test_bad_environment(variable, value):
    result = environment({variable: value}, "jax_enable_x64")
    assert result.returncode != 0 and variable in result.stderr and value in result.stderr


def test_settings_from_the_command_line(monkeypatch):
    given = "program --jax_debug_nans --other=1 --jax_default_matmul_precision=highest -- --jax_debug_infs"
    monkeypatch.setattr("sys.argv", given.split())
    config.parse_flags_with_absl()
    assert config.jax_debug_nans and config.jax_default_matmul_precision == "highest" and not config.jax_debug_infs
    monkeypatch.setattr("sys.argv", ["program", "--jax_debug_nans=perhaps"])
    with pytest.raises(ValueError, match="--jax_debug_nans"):
        config.parse_flags_with_absl()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("jax_use_shardy_partitioner", False),
        ("jax_traceback_in_locations_limit", 0),
        ("jax_hlo_source_file_canonicalization_regex", ".*/site/"),
        ("jax_persistent_cache_enable_xla_caches", "all"),
        ("jax_exec_time_optimization_effort", 0.5),
    ],
)
def test_settings_of_xla_are_kept_and_trace_nothing_anew(name, value):
    key = config.trace_key()
    config.update(name, value)
    assert config.read(name) == value and config.trace_key() == key
    with pytest.raises(ValueError, match="new .* config value must be"):
        config.update(name, object())
