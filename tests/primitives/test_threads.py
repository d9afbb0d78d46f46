"""Parts of a call that threads of veery's own share: each once, errors, calls within calls, several callers, forks."""

from __future__ import annotations

import os
import threading
import time

import pytest

from veery.lax._threads import in_turn


@pytest.mark.parametrize("threads", [1, 2, 3, 20])
@pytest.mark.parametrize("count", [0, 1, 2, 7, 300])
def test_each_number_is_taken_once(count: int, threads: int) -> None:
    taken: list[int] = []
    in_turn(taken.append, count, threads)
    assert sorted(taken) == list(range(count))


def test_another_thread_takes_part() -> None:
    """Each waits for the other, which one thread would for ever."""
    met = threading.Barrier(2, timeout=60)
    for _ in range(20):
        in_turn(lambda i: met.wait(), 2, 2)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_an_error_ends_it(elsewhere: bool) -> None:
    """In this thread or in another, after both are done with what they began."""
    here, met, done = threading.get_ident(), threading.Barrier(2, timeout=60), []

    def fail(i: int) -> None:
        if i < 2:
            met.wait()
        if (threading.get_ident() != here) is elsewhere:
            raise ZeroDivisionError(i)
        time.sleep(0.02)
        done.append(i)

    with pytest.raises(ZeroDivisionError):
        in_turn(fail, 1000, 2)
    assert 1 <= len(done) < 1000
    count = len(done)
    time.sleep(0.05)
    assert len(done) == count
    in_turn(done.append, 5, 2)  # the threads live on
    assert done[count:] == sorted(done[count:]) == list(range(5))


def test_calls_within_calls_and_by_several_threads() -> None:
    totals: list[int] = []

    def inner(i: int) -> None:
        taken: list[int] = []
        in_turn(taken.append, 10, 3)
        totals.append(sum(taken))

    callers = [threading.Thread(target=in_turn, args=(inner, 20, 4)) for _ in range(5)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert totals == [45] * 100


def test_a_child_after_a_fork_has_threads() -> None:
    met = threading.Barrier(2, timeout=60)
    in_turn(lambda i: met.wait(), 2, 2)
    child = os.fork()
    if not child:
        try:
            met = threading.Barrier(2, timeout=20)
            in_turn(lambda i: met.wait(), 2, 2)
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
