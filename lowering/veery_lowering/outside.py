"""Compilation in a process of its own, for children of `os.fork`: the compiler's threads did not come along, and a wait
for them would never end."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from typing import Any

from veery_lowering.errors import CompileError

_PROGRAM = "from veery_lowering.outside import serve; serve()"


def call(function: str, *arguments: Any) -> Any:
    """Call a function of `veery_lowering.mlir`, by name, in a new interpreter.

    Raises:
        CompileError: the interpreter cannot be started, or dies.
        Exception: what the function raises there.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", _PROGRAM]
    try:
        done = subprocess.run(
            command, input=pickle.dumps((function, arguments)), capture_output=True, env=environment, check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        reason = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip().splitlines()
        raise CompileError(
            "compile: this process was forked after its parent had compiled, so that the compiler must run in another "
            f"one, which failed: {reason[-1] if reason else error}. Compile before os.fork(), or start children with "
            "the 'spawn' method"
        ) from error
    result, problem = pickle.loads(done.stdout)
    if problem is not None:
        raise problem
    return result


def serve() -> None:
    """Answer one `call`."""
    from veery_lowering import mlir

    function, arguments = pickle.load(sys.stdin.buffer)
    result = problem = None
    try:
        result = getattr(mlir, function)(*arguments)
    except Exception as error:
        problem = error
    sys.stdout.buffer.write(pickle.dumps((result, problem)))
