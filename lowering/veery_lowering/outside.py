"""The compiler in a process of its own, which alone ends when it crashes.

Children of `os.fork` have no other: the compiler's threads did not come along, and a wait for them would never end.
"""

from __future__ import annotations

import os
import pickle
import re
import signal
import subprocess
import sys
from typing import Any

from veery_lowering.errors import CRASHED, CompileError, CompilerCrash

# The folder of the user's script may have modules of the names of Python's own, which therefore come first.
_PROGRAM = (
    "import pathlib, pickle, subprocess, sys; sys.path[:] = {path!r}; from veery_lowering.outside import serve; serve()"
)
_REASON = re.compile(r"LLVM ERROR.*|.*Assertion .* failed.*|\w*Error: .*")


def call(function: str, *arguments: Any) -> Any:
    """Call a function of `veery_lowering.mlir`, by name, in a new interpreter.

    Raises:
        CompileError: the interpreter cannot be started.
        CompilerCrash: it dies.
        Exception: what the function raises there.
    """
    command = [sys.executable, "-P", "-c", _PROGRAM.format(path=sys.path)]
    try:
        done = subprocess.run(command, input=pickle.dumps((function, arguments)), capture_output=True)
    except OSError as error:
        raise CompileError(
            f"compile: the compiler must run in another process here, and {sys.executable!r} does not start: {error}"
        ) from error
    if done.returncode:
        raise CompilerCrash(f"{CRASHED} ({_reason(done.returncode, done.stderr.decode(errors='replace'))})")
    result, problem = pickle.loads(done.stdout)
    if problem is not None:
        raise problem
    return result


def _reason(status: int, text: str) -> str:
    """What a process died of, as far as it said so."""
    said = _REASON.findall(text)
    try:
        how = signal.Signals(-status).name
    except ValueError:
        how = f"exit status {status}"
    return f"{how}: {said[-1]}" if said else how


def serve() -> None:
    """Answer one `call`."""
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever the compiler prints is not the answer
    from veery_lowering import mlir

    function, arguments = pickle.load(sys.stdin.buffer)
    result = problem = None
    try:
        result = getattr(mlir, function)(*arguments)
    except Exception as error:
        problem = error
    with answer:
        pickle.dump((result, problem), answer)
