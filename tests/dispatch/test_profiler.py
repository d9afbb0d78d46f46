"""Traces and profiles of memory: what is in their files."""

from __future__ import annotations

import gzip
import json
import threading
import urllib.request
import webbrowser

import numpy as np
import pytest

import veery
import veery.numpy as jnp
from veery import profiler
from veery._api import chrome_trace
from veery._core.recording import HOST, Event, Recorder, Track

pytestmark = pytest.mark.compiler

THIS = "test_profiler.py"


def read(folder, name="*.trace.json.gz"):
    """The events of the one trace in a folder: those with a time, and the names of processes and threads."""
    (path,) = folder.glob(f"plugins/profile/*/{name}")
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    names = {(e["name"], e["pid"], e["tid"]): e["args"]["name"] for e in events if e["ph"] == "M"}
    shown = []
    for e in events:
        if e["ph"] == "X":
            process = names["process_name", e["pid"], 0]
            shown.append({**e, "process": process, "thread": names["thread_name", e["pid"], e["tid"]]})
    return shown, events


def within(inner, outer):
    """Whether an event lies within another, in the same thread."""
    same = (inner["pid"], inner["tid"]) == (outer["pid"], outer["tid"])
    return same and outer["ts"] <= inner["ts"] and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"] + 1e-3


def one(shown, **fields):
    (found,) = [e for e in shown if all(e[name] == value for name, value in fields.items())]
    return found


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """The trace of a small program: annotations, a first call and a second, work on another queue, another thread."""
    folder = tmp_path_factory.mktemp("trace")
    small, large = jnp.arange(5.0), jnp.ones((600, 600))

    @veery.jit
    def squared(x):
        return x @ x + 1  # the product alone would not be compiled

    @profiler.annotate_function
    def annotated():
        return squared(small)

    with veery.enable_x64(False):
        veery.config.update("jax_compilation_cache_dir", str(folder / "programs"))
        try:
            with profiler.trace(folder, create_perfetto_trace=True):
                assert profiler.TraceAnnotation.is_enabled()
                for step in range(2):
                    with profiler.StepTraceAnnotation("step", step_num=step), profiler.TraceAnnotation("inner", a="b"):
                        annotated()
                squared(squared(large))
                thread = threading.Thread(target=annotated, name="another")
                thread.start()
                thread.join()
                jnp.sin(small)
        finally:
            veery.config.update("jax_compilation_cache_dir", None)
    assert not profiler.TraceAnnotation.is_enabled()
    squared(small)  # not recorded
    return folder


def test_calls_stand_within_annotations_with_their_lines(traced):
    shown, _ = read(traced)
    steps = [e for e in shown if e["name"] == "step"]
    assert [e["args"]["step_num"] for e in steps] == [0, 1]
    for step in steps:
        (inner,) = [e for e in shown if e["name"] == "inner" and within(e, step)]
        assert inner["args"]["a"] == "b"
        (call,) = [e for e in shown if e["name"] == "jit(squared)" and within(e, inner)]
        assert call["process"] == "/host:CPU" and call["thread"].startswith("MainThread")
        assert THIS in call["args"]["source"] and "annotated" in call["args"]["source"]


def test_the_first_call_shows_its_compilation_and_its_steps(traced):
    shown, _ = read(traced)
    calls = [e for e in shown if e["name"] == "jit(squared)"]
    kinds = [[e["name"] for e in shown if e["cat"] == "compilation" and within(e, call)] for call in calls]
    assert len(calls) == 5
    assert kinds[0][:3] == ["jaxpr_trace", "backend_compile", "jaxpr_to_mlir_module"]
    assert "machine code" in kinds[0] and "passes" in kinds[0]
    assert kinds[1] == kinds[3] == kinds[4] == []  # known
    compilation = next(e for e in shown if e["name"] == "backend_compile")
    steps = [e for e in shown if e["cat"] == "compilation" and e is not compilation and within(e, compilation)]
    assert sum(e["dur"] for e in steps) <= compilation["dur"]
    assert THIS in compilation["args"]["source"]


def test_programs_stand_on_the_queues_of_devices(traced):
    shown, events = read(traced)
    programs = [e for e in shown if e["cat"] == "program" and e["name"] == "squared"]
    assert len(programs) == 5
    assert {e["process"] for e in programs} == {"/device:cpu:0"}
    assert sorted(e["thread"] for e in programs) == ["inline", "inline", "inline", "threaded", "threaded"]
    first, second = [e for e in programs if e["thread"] == "threaded"]
    assert first["ts"] + first["dur"] <= second["ts"] + 1e-3  # one after the other
    assert first["dur"] > 100  # 600 * 600 * 600 products take some time
    assert all(THIS in e["args"]["source"] for e in programs)
    one(shown, name="sin", cat="program")
    # Each program is joined with its submission.
    begun, ended = ({e["id"] for e in events if e["ph"] == phase} for phase in "sf")
    assert begun == ended and len(begun) >= 6


def test_events_stand_in_the_order_that_readers_go_by(traced):
    """By time, which may be one: what encloses comes first, and arrows begin before they end."""
    recorder = Recorder()
    here, there, begin = Track(HOST, "caller"), Track("/device:cpu:0", "inline"), recorder.begin
    recorder.add(Event("program", "program", there, begin, begin + 3000, {}, 1))
    recorder.add(Event("submit", "submission", here, begin, begin + 1000, {}, 1))
    recorder.add(Event("call", "call", here, begin, begin + 4000, {}))
    written = list(chrome_trace._events(recorder))
    for events in (written, read(traced)[1]):
        timed = [e for e in events if e["ph"] != "M"]
        assert [e["ts"] for e in timed] == sorted(e["ts"] for e in timed)
        begun = set()
        for e in timed:
            if e["ph"] == "s":
                begun.add(e["id"])
            assert e["ph"] != "f" or e["id"] in begun
    assert [e["name"] for e in written if e["ph"] == "X"] == ["call", "program", "submit"]


def test_threads_have_rows_of_their_own(traced):
    shown, _ = read(traced)
    others = [e for e in shown if e["thread"].startswith("another")]
    assert [e["name"] for e in others if e["cat"] == "call"] == ["jit(squared)"]
    assert any(e["cat"] == "annotation" and e["name"].endswith("annotated") for e in others)


def test_functions_of_the_user_are_shown(traced):
    shown, _ = read(traced)
    functions = [e["name"] for e in shown if e["cat"] == "python"]
    assert any(name.startswith(f"${THIS}") and name.endswith(" squared") for name in functions)
    assert not any("contextlib" in name or "fromnumeric" in name for name in functions)


def test_perfetto_gets_the_same(traced):
    assert read(traced)[1] == read(traced, "perfetto_trace.json.gz")[1]


@pytest.mark.parametrize(
    ("options", "categories"),
    [
        ({"python_tracer_level": 0}, {"annotation", "submission", "program", "call", "compilation"}),
        ({"host_tracer_level": 0}, {"program"}),
        ({"device_tracer_level": 0, "python_tracer_level": 0}, {"annotation", "submission", "call", "compilation"}),
    ],
)
def test_options_leave_things_out(tmp_path, options, categories):
    x = jnp.arange(5.0)
    chosen = profiler.ProfileOptions()
    for name, value in options.items():
        setattr(chosen, name, value)
    with profiler.trace(tmp_path, profiler_options=chosen), profiler.TraceAnnotation("here"):
        veery.jit(lambda x: x + 1)(x)
    assert {e["cat"] for e in read(tmp_path)[0]} == categories


def test_compiled_functions_and_pmap_are_recorded(tmp_path):
    x = jnp.arange(5.0)
    compiled = veery.jit(lambda x: x + 1).lower(x).compile()
    mapped, stacked = veery.pmap(lambda x: x + 1), x[None]
    with profiler.trace(tmp_path):
        compiled(x)
        mapped(stacked)
    shown, _ = read(tmp_path)
    names = [e["name"] for e in shown if e["cat"] in ("program", "call")]
    assert names == ["<lambda>", "pmap(<lambda>)"]


def test_one_trace_at_a_time(tmp_path):
    with pytest.raises(RuntimeError, match="No profile started"):
        profiler.stop_trace()
    with profiler.trace(tmp_path):
        with pytest.raises(RuntimeError, match="already been started"):
            profiler.start_trace(tmp_path)
    with pytest.raises(ZeroDivisionError), profiler.trace(tmp_path / "failed"):
        1 / 0  # noqa: B018
    assert not profiler.TraceAnnotation.is_enabled()
    read(tmp_path / "failed")


def test_failed_calls_still_fail(tmp_path):
    def fails(x):
        raise ZeroDivisionError("in a callback")

    f = veery.jit(lambda x: veery.pure_callback(fails, veery.ShapeDtypeStruct((3,), jnp.float32), x))
    x = jnp.ones(3)
    with pytest.raises(Exception, match="in a callback"), profiler.trace(tmp_path):
        f(x).block_until_ready()


def test_annotations_without_a_trace():
    with profiler.TraceAnnotation("here", a=1) as annotation:
        annotation.set_metadata(b=2)
    named = profiler.annotate_function(len, name="size")
    assert named([1, 2]) == 2 and named.__name__ == "len"


def test_a_link_serves_the_trace(tmp_path, monkeypatch, capsys):
    got, threads = [], []

    def fetch(url):
        def read_it():
            with urllib.request.urlopen(url.partition("url=")[2]) as answer:
                got.append((answer.headers["Access-Control-Allow-Origin"], answer.read()))

        threads.append(threading.Thread(target=read_it))
        threads[-1].start()

    monkeypatch.setattr(webbrowser, "open", fetch)
    with profiler.trace(tmp_path, create_perfetto_link=True):
        pass
    threads[0].join()
    ((origin, data),) = got
    assert origin == "https://ui.perfetto.dev" and "traceEvents" in json.loads(gzip.decompress(data))
    assert "https://ui.perfetto.dev/#!/?url=http://127.0.0.1:9001/perfetto_trace.json.gz" in capsys.readouterr().out


def test_servers_are_refused():
    with pytest.raises(RuntimeError, match="profiler.trace"):
        profiler.start_server(9999)
    with pytest.raises(RuntimeError, match="No active profiler server"):
        profiler.stop_server()


# Profiles of memory.


def message(data):
    """The fields of a message of protocol buffers: pairs of number and value (a number, or bytes)."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    fields = []
    while at < len(data):
        tag = varint()
        if tag & 7 == 2:
            size = varint()
            fields.append((tag >> 3, data[at : at + size]))
            at += size
        else:
            assert tag & 7 == 0
            fields.append((tag >> 3, varint()))
    return fields


def numbers(packed):
    return [value for _, value in message(b"".join(b"\x08" + v for v in split(packed)))]


def split(packed):
    """The bytes of each number in a packed field."""
    start = 0
    for i, byte in enumerate(packed):
        if byte < 0x80:
            yield packed[start : i + 1]
            start = i + 1


def test_the_profile_of_memory_counts_arrays(tmp_path):
    kept = [jnp.asarray(np.zeros((123, 45), np.float32)) for _ in range(3)]
    profiler.save_device_memory_profile(tmp_path / "memory.prof", backend="cpu")
    fields = message(gzip.decompress((tmp_path / "memory.prof").read_bytes()))
    texts = [value.decode() for number, value in fields if number == 6]
    assert texts[0] == ""
    kinds = [dict(message(value)) for number, value in fields if number == 1]
    assert [(texts[k[1]], texts[k[2]]) for k in kinds] == [("allocations", "count"), ("space", "bytes")]
    functions = {f[1]: texts[f[2]] for f in (dict(message(v)) for number, v in fields if number == 5)}
    locations = {}
    for number, value in fields:
        if number == 4:
            place = dict(message(value))
            locations[place[1]] = functions[dict(message(place[4]))[1]]
    found = {}
    for number, value in fields:
        if number == 2:
            sample = message(value)
            (place,) = numbers(dict(sample)[1])
            labels = [dict(message(v)) for n, v in sample if n == 3]
            labels = {texts[k[1]]: texts[k[2]] for k in labels}
            found[locations[place]] = numbers(dict(sample)[2]), labels
    assert found["float32[123,45]"] == ([3, 3 * kept[0].nbytes], {"kind": "buffer", "device": "cpu:0"})
