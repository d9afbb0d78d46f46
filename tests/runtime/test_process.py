"""Exit, fork, signals, imports: what can only be seen from outside a process."""

from __future__ import annotations

import sys

import programs
import pytest

PRELUDE = """
import gc, os, sys, time, threading, warnings
import numpy as np, programs, veery_runtime as runtime
device = runtime.devices("cpu")[0]
row = lambda v=0.0: runtime.put(np.full(8, v, np.float32), device)
"""


def _succeeds(process, output=None):
    assert process.returncode == 0, (process.returncode, process.stderr[-3000:])
    assert "leaked" not in process.stderr and "Exception ignored" not in process.stderr, process.stderr
    if output is not None:
        assert process.stdout.strip() == output


@pytest.mark.parametrize("attempt", range(3))
def test_exit_with_live_buffers_and_work_in_flight(run_python, attempt):
    script = (
        PRELUDE
        + """
x = runtime.put(np.eye(1024, dtype=np.float32), device)
multiply = runtime.load(programs.matmul(1024), device)
y = x
for _ in range(5):
    y, = multiply([y, x])
a = runtime.load(programs.add_one(), device)([row()])
b = runtime.load(programs.add_one(), device, queue="threaded")([row()])
c = runtime.load(programs.countdown(), device)([runtime.put(np.array(n, np.int32), device) for n in (0, 20000)])
aligned = runtime.put(np.zeros(1 << 20, np.float32), device)
view = aligned.numpy()
cycle = [x, y, a]; cycle.append(cycle)
print("end")
"""
    )
    _succeeds(run_python(script), "end")


def test_exit_waits_for_effects(run_python):
    script = (
        PRELUDE
        + """
def function(x):
    time.sleep(0.3)
    print("effect", x[0], flush=True)
for call in [runtime.load(programs.host_effect(function), device, queue=q) for q in ("threaded", "deferred")]:
    call([row(3.0)])
print("end", flush=True)
"""
    )
    process = run_python(script)
    _succeeds(process)
    assert process.stdout.split("\n")[:3] == ["end", "effect 3.0", "effect 3.0"]


def test_exit_reports_a_failed_effect_that_nobody_saw(run_python):
    script = (
        PRELUDE
        + """
def function(x):
    raise KeyError("unseen")
runtime.load(programs.host_effect(function), device, queue="threaded")([row()])
"""
    )
    process = run_python(script)
    assert process.returncode == 0 and "KeyError: 'unseen'" in process.stderr


def test_buffers_outlive_all_references_to_their_device(run_python):
    script = (
        PRELUDE
        + """
results = [runtime.load(programs.add_one(), device, queue=q)([row()])[0] for q in ("inline", "threaded")]
results[1].wait()
task, sync = device.hal, device.inline
device._task = device._sync = None
del device, task, sync
for result in results:
    result._spec.device._task = None
gc.collect()
print([float(r.numpy()[0]) for r in results])
del results
gc.collect()
"""
    )
    _succeeds(run_python(script), "[1.0, 1.0]")


def test_a_forked_child_works(run_python):
    script = (
        PRELUDE
        + """
calls = [runtime.load(programs.add_one(), device, queue=q) for q in ("inline", "threaded", "deferred")]
host = runtime.load(programs.host(lambda x: x, pure=False), device, queue="threaded")
multiply = programs.matmul()
x = row()
for call in (*calls, host):
    x, = call([x])
x.wait()
child = os.fork()
if child == 0:
    try:
        y = x
        for call in (*calls, host):
            y, = call([y])
        print(float(y.numpy()[0]), flush=True)
        m = runtime.load(multiply, device)
        eye = runtime.put(np.eye(512, dtype=np.float32), device)
        print(m([eye, eye])[0].numpy().sum(), flush=True)
    finally:
        os._exit(0)
_, status = os.waitpid(child, 0)
print("child", status, float(host([x])[0].numpy()[0]))
"""
    )
    _succeeds(run_python(script), "8.0\n512.0\nchild 0 5.0")


def test_work_in_flight_at_a_fork_is_refused_in_the_child(run_python):
    script = (
        PRELUDE
        + """
release = threading.Event()
def function(x):
    release.wait(60)
    return x
x, = runtime.load(programs.host(function), device, queue="threaded")([row()])
y, = runtime.load(programs.add_one(), device, queue="deferred")([x])
z, = runtime.load(programs.add_one(), device, queue="deferred")([y])
child = os.fork()
if child == 0:
    for buffer in (x, y, z):
        try:
            buffer.numpy()
        except runtime.ForkedProcessError as error:
            print("in flight when the process forked" in str(error), flush=True)
    os._exit(0)
os.waitpid(child, 0)
release.set()
print(float(z.numpy()[0]))
"""
    )
    _succeeds(run_python(script), "True\nTrue\nTrue\n3.0")


def test_spawned_children_work(run_python, tmp_path):
    path = tmp_path / "parent.py"
    path.write_text(
        "import multiprocessing, numpy as np\n"
        "def work(v):\n"
        "    import programs, veery_runtime as runtime\n"
        "    device = runtime.devices('cpu')[0]\n"
        "    x = runtime.put(np.full(8, v, np.float32), device)\n"
        "    return float(runtime.load(programs.add_one(), device)([x])[0].numpy()[0])\n"
        "if __name__ == '__main__':\n"
        "    print(work(1))\n"
        "    with multiprocessing.get_context('spawn').Pool(2) as pool:\n"
        "        print(pool.map(work, [2, 3]))\n"
    )
    _succeeds(run_python(f"import runpy; runpy.run_path({str(path)!r}, run_name='__main__')"), "2.0\n[3.0, 4.0]")


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("what", ["threaded", "deferred", "backpressure"])
def test_ctrl_c_interrupts_a_wait(run_python, what):
    script = (
        PRELUDE
        + f"""
import signal
what = {what!r}
release = threading.Event()
def function(x):
    release.wait(60)
    return x
queue = "threaded" if what == "backpressure" else what
host = runtime.load(programs.host(function), device, queue=queue)
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    start = time.time()
    if what == "backpressure":
        for _ in range(1000):
            host([row()])
    else:
        host([row()])[0].wait()
except KeyboardInterrupt:
    print("interrupted", time.time() - start < 5, flush=True)
release.set()
runtime.synchronize()
print(float(runtime.load(programs.add_one(), device)([row()])[0].numpy()[0]))
"""
    )
    _succeeds(run_python(script), "interrupted True\n1.0")


def test_the_runtime_needs_neither_compiler_nor_frontend_and_imports_fast(run_python):
    script = """
import sys, time
start = time.process_time()
import numpy
numpys = time.process_time() - start
class Block:
    def find_spec(self, name, path=None, target=None):
        blocked = ("veery", "veery_lowering", "optree", "scipy", "jax", "jaxlib")
        if name.split(".")[0] in blocked or name.startswith("iree.compiler"):
            raise ImportError(name)
sys.meta_path.insert(0, Block())
start = time.process_time()
import veery_runtime as runtime
ours = time.process_time() - start
print(runtime.put(numpy.arange(3), runtime.devices("cpu")[0]).numpy().tolist(), ours < 4 * numpys)
"""
    _succeeds(run_python(script), "[0, 1, 2] True")


def test_many_virtual_devices(run_python):
    script = (
        PRELUDE
        + """
print(len(runtime.devices("cpu")))
runtime.configure(num_cpu_devices=8)
devices = runtime.devices("cpu")
print(devices[0] is device, [d.id for d in devices], devices[7])
results = [runtime.load(programs.add_one(), d, queue=q)([runtime.put(np.full(8, i, np.float32), d)])[0]
           for q in ("inline", "threaded") for i, d in enumerate(devices)]
print([int(r.numpy()[0]) for r in results], results[7].device is devices[7])
try:
    runtime.configure(num_cpu_devices=2)
except RuntimeError as error:
    print("in use already" in str(error))
"""
    )
    expected = "1\nTrue [0, 1, 2, 3, 4, 5, 6, 7] cpu:7\n[1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8] True\nTrue"
    _succeeds(run_python(script), expected)
    _succeeds(run_python("import veery_runtime as r; print(len(r.devices('cpu')))", VEERY_NUM_CPU_DEVICES="3"), "3")
    flags = "--xla_other=1 --xla_force_host_platform_device_count=2"
    _succeeds(run_python("import veery_runtime as r; print(len(r.devices('cpu')))", XLA_FLAGS=flags), "2")
    failed = run_python("import veery_runtime as r; r.devices('cpu')", VEERY_NUM_CPU_DEVICES="none")
    assert "VEERY_NUM_CPU_DEVICES must be a positive integer, got 'none'" in failed.stderr


def test_numpy_arithmetic_keeps_subnormals_after_calls(run_python):
    """Programs run with subnormals flushed; the caller's thread must not stay so."""
    script = (
        PRELUDE
        + """
call = runtime.load(programs.add_one(), device)
for _ in range(10):
    call([row()])[0].numpy()
tiny = np.full(8, 1e-40, np.float32)
print((tiny * np.float32(0.5)).all())
"""
    )
    _succeeds(run_python(script), "True")


def test_programs_begin_while_threads_free_arrays(run_python):
    """The array of a call is freed by a thread of the queue, for which it needs the interpreter's lock."""
    script = (
        PRELUDE
        + """
table = programs.with_table()
multiply = runtime.load(programs.matmul(), device, queue="threaded")
def shared():
    raw = np.zeros((1 << 20) + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return runtime.put(raw[start : start + (1 << 20)].view(np.float32).reshape(512, 512), device, copy=False)
x = runtime.put(np.zeros(8192, np.float32), device)
for _ in range(10):
    for _ in range(8):
        multiply([shared(), shared()])
    (y,) = runtime.load(table, device, queue="threaded")([x])
angles = np.arange(8192.0)
print(np.allclose(y.numpy(), np.sin(angles) + np.sin(angles)[::-1], atol=1e-3))
"""
    )
    assert b"__init\0" in programs.with_table().vmfb
    _succeeds(run_python(script), "True")
