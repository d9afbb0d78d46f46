"""Many programs in processes that may end: each outcome is kept, a death or a hang is one of them."""

from __future__ import annotations

import json
import os
import queue
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path

from fuzz.checks import Outcome

ROOT = Path(__file__).parents[2]
LIMIT = 120.0  # seconds of one program


def environment() -> dict[str, str]:
    """The environment in which this repository's packages are found before installed ones."""
    paths = [str(ROOT / name) for name in ("tests", "frontend", "lowering", "runtime")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


class Worker:
    """A process that checks programs one by one, and is started anew when it has died.

    Args:
        seed, target: of all its programs.
        log: a file for what the process prints; it also holds the program in flight.
        limit: seconds that a program may take.
    """

    def __init__(self, seed: int, target: str, log: Path, limit: float = LIMIT):
        self.seed, self.target, self.log, self.limit = seed, target, log, limit
        self._process: subprocess.Popen[bytes] | None = None
        self._temporary: tempfile.TemporaryDirectory[str] | None = None

    def check(self, number: int) -> Outcome:
        """What comes of a program."""
        start = time.monotonic()
        with open(self.log, "a") as log:
            log.write(f"--- program {number} of seed {self.seed}\n")
        if self._process is None:
            self._start()
        process = self._process
        assert process and process.stdin and process.stdout
        try:
            process.stdin.write(f"{number}\n".encode())
            process.stdin.flush()
            line = self._answer(process, start + self.limit)
        except BrokenPipeError:
            line = b""
        if line:
            return Outcome(**json.loads(line))
        seconds = round(time.monotonic() - start, 1)
        if process.poll() is None and line is None:
            self.close()
            return Outcome(self.seed, number, "timeout", detail=f"no answer after {seconds} s", seconds=seconds)
        code = process.wait()
        self.close()
        name = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        return Outcome(self.seed, number, "crash", detail=f"{name}\n{self._tail()}", seconds=seconds)

    def close(self) -> None:
        """End the process, and remove its cache and its temporary files: killed, it does not."""
        if self._process is not None and self._temporary is not None:
            with self._process as process:  # which closes its pipes
                process.kill()
            self._temporary.cleanup()
            self._process = self._temporary = None

    def _start(self) -> None:
        command = [sys.executable, "-m", "fuzz.worker", str(self.seed), self.target]
        self._temporary = folder = tempfile.TemporaryDirectory(prefix="veery-fuzz-", ignore_cleanup_errors=True)
        env = environment() | {"TMPDIR": folder.name, "VEERY_CACHE_DIR": f"{folder.name}/cache"}
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=env, bufsize=0
            )

    def _answer(self, process: subprocess.Popen[bytes], deadline: float) -> bytes | None:
        """A line; nothing if the process ended; None when it is late."""
        assert process.stdout
        received = b""
        while not received.endswith(b"\n"):
            ready, _, _ = select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                return None
            more = os.read(process.stdout.fileno(), 1 << 16)
            if not more:
                return b""
            received += more
        return received

    def _tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()[-12:]
        return "\n".join(line[:300] for line in lines if not line.startswith("---"))


@dataclass
class Campaign:
    """Programs of one seed, their outcomes, and what they cost.

    Attributes:
        seed, target: of all programs.
        folder: where logs, outcomes and scripts are written.
        first: the number of the first program.
        count: how many at most; None for as many as the time allows.
        seconds: how long it may take; None for as long as `count` takes.
    """

    seed: int
    target: str
    folder: Path
    first: int = 0
    count: int | None = None
    seconds: float | None = None
    jobs: int = 2
    outcomes: list[Outcome] = field(default_factory=list)

    def run(self) -> Iterator[Outcome]:
        """Check programs, and give outcomes as they come."""
        self.folder.mkdir(parents=True, exist_ok=True)
        start, results = time.monotonic(), queue.Queue[Outcome | None]()
        numbers = islice(count(self.first), self.count)
        lock = threading.Lock()

        def serve(k: int) -> None:
            worker = Worker(self.seed, self.target, self.folder / f"worker-{k}.log")
            try:
                while self.seconds is None or time.monotonic() - start < self.seconds:
                    with lock:
                        number = next(numbers, None)
                    if number is None:
                        return
                    results.put(worker.check(number))
            finally:
                worker.close()
                results.put(None)

        threads = [threading.Thread(target=serve, args=(k,), daemon=True) for k in range(self.jobs)]
        for thread in threads:
            thread.start()
        with open(self.folder / "outcomes.jsonl", "a") as file:
            running = self.jobs
            while running:
                outcome = results.get()
                if outcome is None:
                    running -= 1
                    continue
                self.outcomes.append(outcome)
                file.write(json.dumps(outcome.as_dict()) + "\n")
                file.flush()
                yield outcome

    @property
    def findings(self) -> list[Outcome]:
        return [o for o in self.outcomes if o.is_finding]

    def summary(self) -> str:
        """What came of all programs: counts, undetermined shares, seconds."""
        counts = Counter(o.kind for o in self.outcomes)
        n = max(len(self.outcomes), 1)
        seconds = sum(o.seconds for o in self.outcomes)
        lines = [
            f"{len(self.outcomes)} programs of seed {self.seed} on {self.target}: "
            + ", ".join(f"{number} {kind}" for kind, number in counts.most_common()),
            f"undetermined: {100 * sum(o.undetermined for o in self.outcomes) / n:.1f}% of the results' elements; "
            f"{seconds / n:.2f} s a program",
        ]
        reasons = Counter(o.fallback_reason for o in self.outcomes if o.fallback)
        if reasons:
            lines.append(f"{sum(reasons.values())} were compiled in another form than the best, since IREE failed:")
        lines += [f"    {number}x {reason}" for reason, number in reasons.most_common()]
        return "\n".join(lines)
