"""Finding PJRT plugins: what is said where there is none, two, or one that is no good."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import veery
from veery_runtime.errors import DeviceUnavailableError
from veery_runtime.pjrt import abi, options, plugins
from veery_runtime.pjrt.api import PjrtError, named_values
from veery_runtime.pjrt.client import _created

_ASK = """
import sys, veery
try:
    print(veery.devices(sys.argv[1]))
except RuntimeError as error:
    print(error)
print(veery.jit(lambda x: x + 1)(1.0))
"""


def _asked(platform: str, tmp_path: Path, **environment: str) -> list[str]:
    """What a new process says when it is asked for a platform, and that IREE goes on."""
    variables = {**os.environ, "VEERY_CACHE_DIR": str(tmp_path), **environment}
    said = subprocess.run([sys.executable, "-c", _ASK, platform], capture_output=True, text=True, env=variables)
    assert said.returncode == 0 and "cpu_device_count" not in said.stderr, said.stderr
    lines = said.stdout.splitlines()
    assert lines[-1] == "2.0"
    return lines[:-1]


def _compiled(tmp_path: Path, body: str) -> str:
    """A shared library of C code."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    source, library = tmp_path / "plugin.c", tmp_path / "plugin.so"
    source.write_text(f"#include <stddef.h>\n#include <signal.h>\n{body}")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    return str(library)


def test_a_missing_plugin_is_told_with_its_extra(tmp_path: Path) -> None:
    (said,) = _asked("tpu", tmp_path)
    assert "there is no PJRT plugin for it. pip install 'veery[xla-tpu]'" in said
    assert "VEERY_PJRT_PLUGIN=tpu=/path/of/the/plugin.so" in said


def test_unknown_platforms_are_told_what_there_is(tmp_path: Path) -> None:
    (said,) = _asked("tpuu", tmp_path)
    assert "veery knows cpu, vulkan, cuda" in said


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    (said,) = _asked("tpu", tmp_path, VEERY_PJRT_PLUGIN=f"tpu={tmp_path}/none.so")
    assert said.startswith("No tpu device:") and "none.so (VEERY_PJRT_PLUGIN) does not exist" in said


def test_a_file_that_is_no_plugin(tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("no library")
    (said,) = _asked("tpu", tmp_path, VEERY_PJRT_PLUGIN=f"tpu={tmp_path}/text.so")
    assert "is not a PJRT plugin that can be loaded" in said
    library = _compiled(tmp_path, "int nothing(void) { return 0; }")
    (said,) = _asked("tpu", tmp_path, VEERY_PJRT_PLUGIN=f"tpu={library}")
    assert "is not a PJRT plugin that can be loaded" in said and "GetPjrtApi" in said


def test_a_plugin_that_crashes_takes_nothing_along(tmp_path: Path) -> None:
    library = _compiled(tmp_path, "void* GetPjrtApi(void) { raise(SIGSEGV); return 0; }")
    (said,) = _asked("tpu", tmp_path, VEERY_PJRT_PLUGIN=f"tpu={library}")
    assert "dies with signal 11 when it is started" in said


def test_a_tpu_is_looked_for_before_its_plugin_waits_for_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "_BUS", tmp_path / "bus")
    tried: list[str] = []
    monkeypatch.setattr(plugins, "_try_in_a_child", lambda plugin: tried.append(plugin.origin))

    def fails(path: str) -> None:
        raise PjrtError("not started", 13)

    monkeypatch.setattr(plugins, "Api", fails)
    here = plugins.Plugin("tpu", "/somewhere/libtpu.so", "libtpu")

    def opened(plugin: plugins.Plugin) -> str:
        with pytest.raises(DeviceUnavailableError) as caught:
            plugins._open(plugin)
        return str(caught.value)

    for name, vendor, kind in (("a", "0x1ae0", "0x020000"), ("b", "0x1234", "0x120000")):  # a network's, another's
        (tmp_path / "bus" / name).mkdir(parents=True)
        (tmp_path / "bus" / name / "vendor").write_text(vendor + "\n")
        (tmp_path / "bus" / name / "class").write_text(kind + "\n")
    assert "VEERY_PJRT_PLUGIN=tpu=/somewhere/libtpu.so" in opened(here) and not tried
    opened(plugins.Plugin("tpu", here.path, plugins.VARIABLE))
    assert tried == [plugins.VARIABLE]
    (tmp_path / "bus" / "b" / "vendor").write_text("0x1ae0\n")
    opened(here)
    assert tried == [plugins.VARIABLE, "libtpu"]


@pytest.mark.parametrize("version", [(0, 3), (1, 0)])
def test_a_plugin_of_another_version_is_refused_with_both(tmp_path: Path, version: tuple[int, int]) -> None:
    words = f"static size_t table[400] = {{3000, 0, 24, 0, {version[0]} + ((size_t){version[1]} << 32)}};"
    nothing = "static void* nothing(void* arguments) { return 0; }"
    fill = "for (int i = 5; i < 400; i++) table[i] = (size_t)&nothing;"
    library = _compiled(tmp_path, f"{words}\n{nothing}\nvoid* GetPjrtApi(void) {{ {fill} return table; }}")
    (said,) = _asked("tpu", tmp_path, VEERY_PJRT_PLUGIN=f"tpu={library}")
    assert f"has version {version[0]}.{version[1]} of PJRT's interface; veery speaks 0.{abi.OLDEST_MINOR}" in said


def test_two_plugins_of_one_platform_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    both = [plugins.Plugin("two", f"/{name}.so", f"{name} 1.0") for name in ("first", "second")]
    monkeypatch.setattr(plugins, "_installed", lambda: both)
    with pytest.raises(RuntimeError, match=r"there are 2 plugins for it: /first.so \(first 1.0\); /second.so"):
        plugins.devices("two")
    monkeypatch.setenv(plugins.VARIABLE, "two=/third.so")
    monkeypatch.delitem(plugins._problems, "two")
    with pytest.raises(RuntimeError, match="/third.so .VEERY_PJRT_PLUGIN. does not exist"):
        plugins.devices("two")
    plugins._problems.pop("two")


def test_the_variable_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(plugins.VARIABLE, "/path/alone.so")
    with pytest.raises(ValueError, match=r"must be name=path\[,name=path...\], got '/path/alone.so'"):
        plugins.found()


def test_packages_are_found_without_importing_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "jax_plugins" / "xla_cuda12"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise ImportError('it was imported')")
    (folder / "xla_cuda_plugin.so").write_text("")
    info = tmp_path / "jax_cuda12_pjrt-0.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: jax-cuda12-pjrt\nVersion: 0.9\n")
    (info / "entry_points.txt").write_text("[jax_plugins]\nxla_cuda12 = jax_plugins.xla_cuda12\n")
    monkeypatch.syspath_prepend(tmp_path)
    plugin = plugins.Plugin("xla-cuda", str(folder / "xla_cuda_plugin.so"), "jax-cuda12-pjrt 0.9")
    assert plugin in plugins.found() and "xla-cuda" in plugins.platforms()


def test_a_plugin_is_tried_once(xla: Any, tmp_path: Path) -> None:
    path = xla.client.api.path
    for _ in range(2):
        (said,) = _asked("xla", tmp_path)
        assert said.startswith("[XlaDevice(id=0)")
    (record,) = json.loads((tmp_path / "plugins.json").read_text())
    assert record[0] == path
    (tmp_path / "plugins.json").write_text("damaged")
    assert _asked("xla", tmp_path)[0].startswith("[XlaDevice(id=0)")


@pytest.mark.parametrize(("environment", "count"), [({}, 1), ({"JAX_NUM_CPU_DEVICES": "3"}, 3)])
def test_the_number_of_devices_is_that_of_the_cpu(
    xla: Any, tmp_path: Path, environment: dict[str, str], count: int
) -> None:
    (said,) = _asked("xla", tmp_path, **environment)
    assert said == str([f"XlaDevice(id={i})" for i in range(count)]).replace("'", "")


def test_options_that_a_plugin_does_not_take_are_left_out() -> None:
    class Older:
        asked: list[dict[str, Any]]

        def call(self, name: str, arguments: Any) -> Any:
            given = named_values(arguments.create_options, arguments.num_options)
            self.asked.append(given)
            if "asynchronous" in given or (given and not self.takes_devices):
                raise PjrtError("INVALID_ARGUMENT: Unexpected option name passed", 3)
            arguments.client = 7
            return arguments

        def __init__(self, takes_devices: bool) -> None:
            self.asked, self.takes_devices = [], takes_devices

    asked = {"cpu_device_count": 2, "asynchronous": False}
    for takes_devices, tried in ((True, [2, 1]), (False, [2, 1, 0])):
        older: Any = Older(takes_devices)
        assert _created(older, asked) == 7
        assert older.asked == [dict(list(asked.items())[:count]) for count in tried]


def test_nothing_is_loaded_until_it_is_asked_for(tmp_path: Path) -> None:
    program = (
        "import sys, veery\nprint(veery.jit(lambda x: x + 1)(1.0), len(veery.devices()))\n"
        "print('veery_runtime.pjrt' in sys.modules, 'xla_cpu_pjrt' in open('/proc/self/maps').read())"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert said.stdout.split()[2:] == ["False", "False"]


@pytest.mark.parametrize("seconds", [0, 0.01])
def test_a_process_ends_while_its_work_is_in_flight(xla: Any, seconds: float) -> None:
    program = (
        "import time, veery as jax, veery.numpy as jnp\n"
        "client = jax.devices('xla')[0].client\n"
        "destroy = client.destroy_event  # called on a thread of XLA's, which must be done when Python ends\n"
        f"client.destroy_event = lambda event: (time.sleep({seconds}), destroy(event))\n"
        "f = jax.jit(lambda x: jax.lax.fori_loop(0, 30, lambda i, x: jnp.sin(x) @ x, x), backend='xla')\n"
        "ys = [f(jnp.full((100, 100), i, jnp.float32)) for i in range(40)]  # memory that XLA gives back later\n"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (said.returncode, said.stderr) == (0, "")


def test_the_report_names_plugins(xla: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (account,) = [each for each in plugins.accounts() if each.plugin.platform == "xla"]
    assert account.devices == len(veery.devices("xla")) and account.plugin.path == xla.client.api.path
    assert "PJRT 0." in account.version and "StableHLO" in account.version and not account.problem
    monkeypatch.setenv(plugins.VARIABLE, "wrong=/none.so")
    wrong = next(each for each in plugins.accounts() if each.plugin.platform == "wrong")
    assert wrong.devices == 0 and "/none.so" in wrong.problem
    plugins._problems.pop("wrong")


def test_options_are_protocol_buffers() -> None:
    assert options.compile_options([0])[:2] == bytes([0x1A, len(options.compile_options([0])) - 2])
    plain, more = options.compile_options([3]), options.compile_options([3], overrides={"xla_flag": False, "n": 2})
    assert more.startswith(plain) and b"xla_flag" in more and more.endswith(b"\x01n\x12\x02\x18\x02")
    assert options.compile_options([0, 1], partitions=2) != options.compile_options([0, 1])


def test_nothing_is_named_by_nothing() -> None:
    assert named_values(None, 0) == {}
