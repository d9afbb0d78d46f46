"""Whatever happens to the compiler, this process goes on, and so does the next compilation."""

from __future__ import annotations

import gc
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import phases, slow_changes

import veery
from veery_lowering.compiler import helper as helper_process, isolation, sessions
from veery_lowering.compiler.isolation import Deadline
from veery_lowering.errors import CompileError, CompilerCrash, CompilerTimeout
from veery_lowering.passes import pipeline as passes
from veery_lowering.passes.simplification import SETTLED
from veery_lowering.passes.spirv.nan import keep_nan
from veery_lowering.passes.stream.overwriting import refuse_unsafe
from veery_lowering.targets import Traits, resolve
from veery_lowering.targets.fusion import DATA_TILING, NO_AGGRESSIVE_FUSION

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")

MODULE = b"func.func @main(%0: tensor<3xf32>) -> tensor<3xf32> {\n%1 = stablehlo.add %0, %0 : tensor<3xf32>\n" + (
    b"return %1 : tensor<3xf32>\n}"
)
# LLVM aborts on this layout of data, as IREE 3.13 does on some programs.
CRASHING = "--iree-llvmcpu-target-data-layout=nonsense"
FLAGS = resolve("cpu").attempts(Traits(frozenset(), ()))[0]


def compiled(*changes: Callable[[Any], bool], flags: tuple[str, ...] = FLAGS, seconds: float | None = None) -> bytes:
    program, diagnostics = isolation.run_pipeline(MODULE, flags, None, changes, deadline=Deadline(seconds))
    assert program is not None, diagnostics
    return program


def helper_of(process: int) -> int:
    """The helper of a process that has compiled; what it forks has its command line, too."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            lines = (folder / "cmdline").read_text()
            status = dict(re.findall(r"^(\w+):\s+(\S+)", (folder / "status").read_text(), re.MULTILINE))
        except OSError:
            continue
        if f"# of process {process}\n" in lines and status["State"] != "Z":
            parents[int(folder.name)] = int(status["PPid"])
    (helper,) = parents.keys() - {child for child, parent in parents.items() if parent in parents}
    return helper


def children_of(process: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def is_gone(process: int) -> bool:
    try:
        return "\nState:\tZ" in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return True


def wait_for(condition: Callable[[], Any]) -> Any:
    for _ in range(6000):
        if found := condition():
            return found
        time.sleep(0.01)
    raise AssertionError("it did not happen")


@pytest.fixture
def meeting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "meeting"
    folder.mkdir()
    monkeypatch.setenv("MEETING", str(folder))
    monkeypatch.setenv("NUMBER", "4")
    return folder


@pytest.fixture
def without_forks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    helpers: list[Any] = []
    monkeypatch.setattr(isolation, "_FORKS", False)
    monkeypatch.setattr(isolation, "_idle", helpers)
    yield
    for helper in helpers:
        helper.close()


def test_a_crash_is_an_exception_of_its_call() -> None:
    program = compiled()
    helper = helper_of(os.getpid())
    before = set(children_of(helper))  # which may wait for other compilations for a minute
    for _ in range(2):
        with pytest.raises(CompilerCrash, match=r"the compiler crashed \(SIGABRT: LLVM ERROR: "):
            compiled(flags=(*FLAGS, CRASHING))
        assert compiled() == program and helper_of(os.getpid()) == helper
    increase = veery.jit(lambda x: x + 1, compiler_options={CRASHING[2:].split("=")[0]: "nonsense"})
    with pytest.raises(CompileError, match=r"(?s)cannot compile .* at .*test_isolation.py:\d+.*crashed \(SIGABRT"):
        increase(1.0)
    with pytest.raises(CompilerCrash, match=r"SIGKILL: the system was out of memory, or somebody ended it"):
        compiled(slow_changes.be_killed)
    with pytest.raises(ValueError, match="No such compile option: .*'no-such-option'"):
        compiled(flags=("--no-such-option",))
    wait_for(lambda: len(set(children_of(helper)) - before) <= 1)  # one may wait for another compilation
    assert compiled() == program and helper_of(os.getpid()) == helper


def test_memory_that_runs_out_is_an_exception_of_its_call() -> None:
    with pytest.raises((CompilerCrash, MemoryError)):
        compiled(slow_changes.exhaust_memory)
    assert compiled()


def test_an_endless_loop_is_an_exception_of_its_call(meeting: Path) -> None:
    with pytest.raises(CompilerTimeout, match=r"the compiler was stopped after 2 s \(veery_compiler_timeout\)"):
        compiled(slow_changes.end_the_second_time, seconds=2)
    wait_for(lambda: is_gone(int((meeting / "begun").read_text())))
    assert compiled()
    veery.config.update("jax_enable_compilation_cache", False)
    veery.config.update("veery_compiler_timeout", 0.001)
    with pytest.raises(CompileError, match=r"(?s)cannot compile .* at .*test_isolation.py:\d+.*stopped after 0.001 s"):
        veery.jit(lambda x: x + 7)(np.float32(1.0))
    veery.config.update("veery_compiler_timeout", 0)
    assert veery.jit(lambda x: x + 7)(np.float32(1.0)) == 8


def test_the_helper_may_be_killed(meeting: Path) -> None:
    compiled()
    os.kill(helper_of(os.getpid()), signal.SIGKILL)
    assert compiled()
    with ThreadPoolExecutor(1) as pool:
        pending = pool.submit(compiled, slow_changes.end_the_second_time)
        wait_for((meeting / "begun").exists)
        helper = helper_of(os.getpid())
        (child,) = children_of(helper)
        os.kill(helper, signal.SIGKILL)
        assert pending.result()
    wait_for(lambda: is_gone(child))
    (meeting / "begun").unlink()


def test_compilations_that_stand_still_begin_again(meeting: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helpers: list[Any] = []
    monkeypatch.setattr(isolation, "_PATIENCE", 2.0)
    monkeypatch.setattr(isolation, "_idle", helpers)
    with ThreadPoolExecutor(1) as pool:
        pending = pool.submit(compiled, slow_changes.end_the_second_time)
        child = wait_for(lambda: (meeting / "begun").exists() and (meeting / "begun").read_text())
        os.kill(int(child), signal.SIGSTOP)
        assert pending.result() == compiled()
    with pytest.raises(CompileError, match=r"ended 2 times\. It stopped computing for 2 s"):
        compiled(slow_changes.stand_still)
    helpers[0].close()


def test_threads_compile_at_the_same_time(meeting: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: compiled(slow_changes.meet), range(4)))
    assert len(set(results)) == 1 and len(list(meeting.iterdir())) == 4


def test_nothing_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    helpers: list[Any] = []
    monkeypatch.setattr(isolation, "_idle", helpers)

    def compile_some(number: int) -> None:
        for _ in range(number):
            assert isolation.run_pipeline(MODULE, FLAGS, "input")[0]
        with pytest.raises(CompilerCrash):
            compiled(slow_changes.be_killed)

    def files() -> list[int]:
        """How many this process and its helper have open."""
        return [len(list(Path(f"/proc/{process}/fd").iterdir())) for process in (os.getpid(), helper)]

    helper = isolation.call(os.getppid, kind=(sessions.of_session(FLAGS), False))
    compile_some(8)  # after which the helper gets ready for these flags
    wait_for(lambda: not children_of(helper))
    gc.collect()  # what other tests left may go now, or later
    before = files()
    for _ in range(2):
        compile_some(8)
    not_more = lambda: all(after <= earlier for after, earlier in zip(files(), before, strict=True))
    wait_for(lambda: not children_of(helper) and not_more())
    assert len(list(Path(f"/proc/{helper}/task").iterdir())) == 1  # forks of several threads would not be sound
    assert helper not in children_of(os.getpid())  # whoever waits for all children need not wait for it
    for each in helpers:
        each.close()


def test_a_process_that_is_done_compiles_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same options, unless it failed or has taken much memory."""
    helpers: list[Any] = []
    monkeypatch.setattr(isolation, "_idle", helpers)
    kind = (FLAGS, True)
    process = lambda kind=kind: isolation.call(os.getpid, kind=kind)
    first = process()
    assert process() == process() == first != process((FLAGS, False))
    with pytest.raises(NotImplementedError):
        isolation.call(slow_changes.fail, None, kind=kind)
    second = process()
    with pytest.raises(CompilerCrash, match="SIGKILL"):
        isolation.call(slow_changes.be_killed, None, kind=kind)
    third = process()
    isolation.call(os.getpid, kind=kind, memory=1 << 30)
    fourth = process()
    assert len({first, second, third, fourth}) == 4, "a process was not new"
    assert {process() for _ in range(100)} == {fourth}
    isolation.call(slow_changes.take, helper_process._GROWTH, kind=kind)
    assert process() != fourth
    for helper in helpers:
        helper.close()


def test_only_the_last_process_waits_for_long_if_it_is_light(monkeypatch: pytest.MonkeyPatch, meeting: Path) -> None:
    helpers: list[Any] = []
    monkeypatch.setattr(isolation, "_idle", helpers)
    kind = (FLAGS, True)
    process = lambda: isolation.call(os.getpid, kind=kind)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: compiled(slow_changes.meet), range(4)))
    light, helper = process(), isolation.call(os.getppid, kind=kind)
    wait_for(lambda: len(children_of(helper)) == 2)  # one of each kind
    assert light in children_of(helper) and process() == light
    isolation.call(slow_changes.take, helper_process._LIGHT, kind=kind)
    time.sleep(helper_process._STAYS + 0.5)
    assert process() != light
    for each in helpers:
        each.close()


def test_what_a_process_is_asked_for_is_loaded_before_it_is_forked() -> None:
    """All passes there are take 20 ms to load, and 90 where Python keeps no bytecode, each time."""
    changes = [
        passes.changes_of_code(passes.Situation(backend, large=True, branches=True))
        for backend in ("cpu", "vulkan", "cuda")
    ]
    request = pickle.dumps((sessions.run_pipeline, changes, refuse_unsafe, keep_nan))
    program = f"""
import pickle, sys
from veery_lowering.compiler import helper
helper._Server.run = lambda server: None
import socket
helper.main(socket.socketpair()[0].detach(), forks=True, patience=1)
before = set(sys.modules)
pickle.loads({request!r})
print(sorted(set(sys.modules) - before))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[]\n"


def test_the_process_of_the_compiler_does_without_numpy() -> None:
    """Which takes 35 ms to load, and has threads."""
    changes = passes.changes_of_code(passes.Situation("cpu", large=True, branches=True))
    assert isolation.run_pipeline(MODULE, FLAGS, changes=changes, prelude=SETTLED, shortly=True)[0] is not None
    loaded = isolation.call(eval, "{*__import__('sys').modules}", kind=(sessions.of_session(FLAGS), True))
    assert "veery_lowering.compiler.short" in loaded and "numpy" not in loaded


def test_a_session_is_ready_for_new_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is fused or tiled, after a pause."""
    helpers: list[Any] = []
    monkeypatch.setattr(isolation, "_idle", helpers)
    assert isolation.run_pipeline(MODULE, FLAGS, shortly=True)[0] is not None
    assert isolation.call(phases.sessions_that_are_ready) == []
    time.sleep(1.5)
    (ready,) = isolation.call(phases.sessions_that_are_ready)
    assert set(ready) == {*FLAGS} - {NO_AGGRESSIVE_FUSION}
    assert isolation.run_pipeline(MODULE, (*ready, DATA_TILING), shortly=True)[0] is not None
    assert isolation.call(phases.sessions_that_are_ready) == [ready]
    for helper in helpers:
        helper.close()


def test_what_the_compiler_prints_is_shown(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    before = os.getcwd()
    try:
        os.chdir(tmp_path)
        compiled(slow_changes.say)
    finally:
        os.chdir(before)
    assert capfd.readouterr() == ("", f"in {tmp_path}\nan error\n")


def start(script: str, **options: Any) -> subprocess.Popen[str]:
    text = f"import sys; sys.path[:] = {sys.path!r}\nfrom test_isolation import *\n{script}"
    command = [sys.executable, "-c", text]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(command, text=True, cwd=Path(__file__).parent, start_new_session=True, **pipes, **options)


ENDLESS = """
program = compiled()
helper = helper_of(os.getpid())
try:
    compiled(slow_changes.be_killed)  # by the child of the first compilation
except CompilerCrash:
    wait_for(lambda: not children_of(helper))
pending = threading.Thread(target=compiled, args=(slow_changes.never_end,), daemon=True)
pending.start()
wait_for(lambda: children_of(helper))
"""


@pytest.mark.parametrize("how", ["killed", "ends"])
def test_the_helper_ends_with_its_parent(how: str) -> None:
    process = start(ENDLESS + "print(flush=True)\nsys.stdin.readline()\nos._exit(3)\n")
    assert process.stdout is not None
    process.stdout.readline()
    helper = helper_of(process.pid)
    (child,) = children_of(helper)
    links = [os.readlink(f"/proc/{process.pid}/fd/{n}") for n in range(3)]
    for other in (helper, child):
        inherited = {os.readlink(path) for path in Path(f"/proc/{other}/fd").iterdir()}
        assert not inherited & set(links)
    if how == "killed":
        process.kill()
    said = process.communicate("\n", timeout=60)
    assert (process.returncode, said) == (-signal.SIGKILL if how == "killed" else 3, ("", ""))
    wait_for(lambda: is_gone(helper) and is_gone(child))


def test_ctrl_c_ends_a_compilation_at_once(meeting: Path) -> None:
    process = start("""
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell has its background jobs ignore
program = compiled()
helper = helper_of(os.getpid())
try:
    compiled(slow_changes.end_the_second_time)
except KeyboardInterrupt:
    wait_for(lambda: not children_of(helper))
    print("interrupted", compiled() == program, helper_of(os.getpid()) == helper)
""")
    wait_for((meeting / "begun").exists)
    begun = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=120)
    assert said == ("interrupted True True\n", ""), time.monotonic() - begun


def test_a_forked_process_has_a_helper_of_its_own() -> None:
    process = start(
        ENDLESS
        + """
child = os.fork()
if child == 0:
    print(compiled() == program, helper_of(os.getpid()) != helper, flush=True)
    os._exit(0)
os.waitpid(child, 0)
wait_for(lambda: len(children_of(helper)) == 1)
print(compiled() == program, helper_of(os.getpid()) == helper, flush=True)
try:
    os.wait()
except ChildProcessError:
    print("no children")
os._exit(0)
"""
    )
    assert process.communicate(timeout=300) == ("True True\nTrue True\nno children\n", "")


def test_without_forks(without_forks: None, meeting: Path) -> None:
    program = compiled()
    with pytest.raises(CompilerCrash, match=r"SIGABRT: LLVM ERROR: "):
        compiled(flags=(*FLAGS, CRASHING))
    with pytest.raises(CompilerTimeout):
        compiled(slow_changes.never_end, seconds=0.5)
    os.environ["NUMBER"] = "2"
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda _: compiled(slow_changes.meet), range(2))) == [program] * 2


def test_the_interpreter_is_found_or_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("", None, "/usr/bin/env"):
        monkeypatch.setattr(sys, "executable", name)
        monkeypatch.setattr(sys, "_base_executable", name)
        version = subprocess.run([isolation._interpreter(), "--version"], capture_output=True, text=True).stdout
        assert version.split()[1] == ".".join(map(str, sys.version_info[:3]))
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    with pytest.raises(CompileError, match="veery_compiler_isolation='never'"):
        isolation._interpreter()


def test_a_compiler_in_this_process_makes_the_same() -> None:
    """But that it takes the standard pipeline (compiler/short.py)."""
    flags = ("--iree-opt-level=O2",)  # with which the other one takes it, too
    increase = veery.jit(lambda x: x * 5 + 1).lower(np.ones(3, np.float32))._lowered.with_options(flags, cache=False)
    here, there = (increase.with_options(isolation=mode).compile() for mode in ("never", "always"))
    assert {p.metadata["pipeline"] for p in (here, there)} == {"standard"}
    assert here.vmfb == there.vmfb


def test_threads_start_one_helper() -> None:
    process = start("""
with ThreadPoolExecutor(4) as pool:
    print(len(set(pool.map(lambda _: compiled(), range(4)))), len(isolation._idle))
""")
    assert process.communicate(timeout=300) == ("1 1\n", "")


assert threading  # for what the processes import from here
