"""What several threads ask for at the same time is made once."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import veery
from veery import numpy as jnp
from veery_lowering.compiler import isolation
from veery_lowering.compiler.once import once


def test_threads_compile_a_function_once(monkeypatch: pytest.MonkeyPatch) -> None:
    run, calls = isolation.run_pipeline, []

    def counted(*arguments: Any, **options: Any) -> Any:
        calls.append(threading.get_ident())
        return run(*arguments, **options)

    monkeypatch.setattr(isolation, "run_pipeline", counted)
    function = veery.jit(lambda x: jnp.sin(x) @ jnp.cos(x) + 3)
    x, together = np.arange(40, dtype=np.float32), threading.Barrier(4)

    def call(_: int) -> np.ndarray:
        together.wait()
        return np.asarray(function(x))

    with ThreadPoolExecutor(4) as pool:
        outs = list(pool.map(call, range(4)))
    assert len(calls) == 1
    for out in outs:
        np.testing.assert_allclose(out, np.sin(x) @ np.cos(x) + 3, rtol=1e-5)


def waiting_for(key: str, make: Any, count: int) -> list[Any]:
    """What threads come to that ask for the same while the first of them makes it."""
    with ThreadPoolExecutor(count) as pool:
        futures = [pool.submit(once, key, make) for _ in range(count)]
        return [future.exception() or future.result() for future in futures]


def test_all_get_the_result_and_the_next_makes_it_anew() -> None:
    made: list[int] = []

    def make() -> int:
        time.sleep(0.1)
        made.append(len(made))
        return made[-1]

    assert waiting_for("key", make, 3) == [0, 0, 0]
    assert once("key", make) == 1


def test_all_get_the_exception() -> None:
    def fail() -> None:
        time.sleep(0.1)
        raise ValueError("no")

    assert [str(error) for error in waiting_for("key", fail, 3)] == ["no", "no", "no"]


def test_where_one_is_stopped_the_next_goes_on() -> None:
    attempts: list[int] = []

    def make() -> str:
        attempts.append(1)
        time.sleep(0.1)
        if len(attempts) == 1:
            raise KeyboardInterrupt
        return "made"

    found = waiting_for("key", make, 3)
    assert sorted(type(each).__name__ for each in found) == ["KeyboardInterrupt", "str", "str"]
    assert len(attempts) == 2


def test_other_keys_do_not_wait() -> None:
    assert once("one", lambda: once("other", lambda: "inner")) == "inner"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_forked_process_waits_for_nobody() -> None:
    began, end = threading.Event(), threading.Event()

    def make() -> str:
        began.set()
        end.wait()
        return "parent"

    thread = threading.Thread(target=once, args=("key", make))
    thread.start()
    began.wait()
    child = os.fork()
    if child == 0:
        os._exit(0 if once("key", lambda: "child") == "child" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    end.set()
    thread.join()
