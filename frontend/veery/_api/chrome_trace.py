"""A recorded trace in the format of Chrome's trace viewer, which Perfetto opens."""

from __future__ import annotations

import functools
import gzip
import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from veery._core.recording import HOST, Recorder

VIEWER = "https://ui.perfetto.dev"
_PORT = 9001  # the one that Perfetto's page may read from


def write(recorder: Recorder, path: Path) -> None:
    """Write what was recorded to a file, compressed."""
    data = {"displayTimeUnit": "ns", "traceEvents": [*_events(recorder)], "metadata": {"dropped": recorder.dropped}}
    with gzip.open(path, "wt", encoding="utf-8", compresslevel=6) as file:
        json.dump(data, file, separators=(",", ":"))


def _events(recorder: Recorder) -> Iterator[dict[str, Any]]:
    events = sorted(recorder.events, key=lambda event: (event.begin, -event.end))
    tracks = dict.fromkeys(event.track for event in events)
    processes = dict.fromkeys([HOST, *(track.process for track in tracks)])
    pids = {process: os.getpid() if process == HOST else i for i, process in enumerate(processes, 1)}
    tids = {track: i for i, track in enumerate(tracks, 1)}
    for process, pid in pids.items():
        yield {"ph": "M", "pid": pid, "tid": 0, "name": "process_name", "args": {"name": process}}
    for track, tid in tids.items():
        args = {"name": track.thread}
        yield {"ph": "M", "pid": pids[track.process], "tid": tid, "name": "thread_name", "args": args}
    slices: list[dict[str, Any]] = []
    begins: list[dict[str, Any]] = []
    ends: list[dict[str, Any]] = []
    for event in events:
        begin, duration = (event.begin - recorder.begin) / 1e3, (event.end - event.begin) / 1e3  # microseconds
        place = {"pid": pids[event.track.process], "tid": tids[event.track], "ts": begin}
        slices.append(
            {"ph": "X", "name": event.name, "cat": event.category, **place, "dur": duration, "args": event.args}
        )
        if event.flow is not None:
            joint = {"name": "call", "cat": "call", "id": event.flow, **place}
            if event.category == "submission":
                begins.append({"ph": "s", **joint})
            else:
                ends.append({"ph": "f", "bp": "e", **joint})
    # readers go by time, and at one time by the order of the file: an arrow ends after it begins, within slices
    yield from sorted([*slices, *begins, *ends], key=lambda event: event["ts"])


def show(path: Path) -> None:
    """Open Perfetto with a trace, which is served to it from this machine, and wait until it has been read."""
    import http.server
    import webbrowser

    served = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def end_headers(self) -> None:
            self.send_header("Access-Control-Allow-Origin", VIEWER)
            super().end_headers()

        def do_GET(self) -> None:
            served.append(self.path)
            super().do_GET()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    handler = functools.partial(Handler, directory=str(path.parent))
    with http.server.HTTPServer(("127.0.0.1", _PORT), handler) as server:
        url = f"{VIEWER}/#!/?url=http://127.0.0.1:{_PORT}/{path.name}"
        print(f"Open the trace in a browser: {url}")
        webbrowser.open(url)
        for _ in itertools.takewhile(lambda _: f"/{path.name}" not in served, itertools.count()):
            server.handle_request()
