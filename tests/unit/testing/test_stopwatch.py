"""What `specs` should not mention of the limits of checks."""

import asyncio
import gc
import signal
import threading
from contextlib import suppress
from functools import partial
from time import perf_counter

import pytest

from toolbus.testing.stopwatch import Stopwatch, TimeIsUp


@pytest.fixture
def watch():
    watch = Stopwatch(0.05)
    yield watch
    watch.close()


async def later(value):
    await asyncio.sleep(0)
    return value


def in_thread(function):
    """Return what *function* returns, or raise what it raises, in another thread."""
    ends = []

    def work():
        try:
            ends.append((function(), None))
        except BaseException as error:  # noqa: BLE001 - it is raised in the test
            ends.append((None, error))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    ((result, error),) = ends
    if error is not None:
        raise error
    return result


def spin(until):
    while perf_counter() < until:
        pass


def everywhere(watch, function):
    yield watch.run(function)
    yield in_thread(lambda: watch.run(function))


def test_results_come_through():
    watch = Stopwatch(10)

    assert list(everywhere(watch, lambda: 3)) == [3, 3]
    assert list(everywhere(watch, lambda: later(4))) == [4, 4]
    watch.close()
    watch.close()


def test_errors_come_through():
    watch = Stopwatch(10)

    def fail():
        raise KeyError("a")

    async def fail_later():
        raise TimeoutError

    for function, error in ((fail, KeyError), (fail_later, TimeoutError)):
        with pytest.raises(error):
            watch.run(function)
        with pytest.raises(error):
            in_thread(lambda: watch.run(function))  # noqa: B023 - it is called at once
    watch.close()


def test_what_waits_is_ended_everywhere(watch):
    async def wait():
        await asyncio.Event().wait()

    with pytest.raises(TimeIsUp):
        watch.run(wait)
    with pytest.raises(TimeIsUp):
        in_thread(lambda: watch.run(wait))


def test_a_thread_that_does_not_end_is_left_behind(watch):
    released = threading.Event()

    with pytest.raises(TimeIsUp):
        in_thread(lambda: watch.run(released.wait))

    released.set()


@pytest.mark.full
def test_what_was_too_slow_and_ended_counts_as_well(watch):
    def swallow():
        try:
            threading.Event().wait()
        except TimeIsUp:
            return 3

    with pytest.raises(TimeIsUp):
        watch.run(swallow)


def test_no_alarm_rings_after_the_end(monkeypatch):
    # Each alarm rings when the function ends, or nearly so, and then again and again.
    def soon(which, seconds, interval=0.0):
        return setitimer(which, seconds and 0.001, interval and 0.0005)

    setitimer = signal.setitimer
    monkeypatch.setattr(signal, "setitimer", soon)
    former, watch, ended = signal.getsignal(signal.SIGALRM), Stopwatch(10), 0

    # Python drops what an alarm raises in a callback of the collection of garbage.
    gc.disable()
    try:
        for share in range(300):
            until = perf_counter() + 0.0009 + share % 10 * 0.00003
            with suppress(TimeIsUp):
                watch.run(partial(spin, until))
                ended += 1
    finally:
        gc.enable()

    assert signal.getsignal(signal.SIGALRM) == former
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    assert ended < 300


@pytest.mark.full
def test_a_loop_that_was_interrupted_is_not_used_again(watch):
    async def block():
        threading.Event().wait()

    with pytest.raises(TimeIsUp):
        watch.run(block)

    assert watch.run(lambda: 3) == 3
