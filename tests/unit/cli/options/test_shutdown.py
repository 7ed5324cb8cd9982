"""How a verb hears that it is to end: by what signals, whatever the main thread is doing at that moment."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from agent.cli.options.shutdown import Ending


class Dying:
    """Sends a signal while it is being destroyed."""

    def __init__(self, number: signal.Signals) -> None:
        self._number = number

    def __del__(self) -> None:
        signal.raise_signal(self._number)


def test_a_signal_in_a_destructor_is_heard() -> None:
    """Python drops what is raised there: a KeyboardInterrupt, for instance."""
    with Ending(signal.SIGINT) as ending:
        assert not ending.wait(0.0)
        Dying(signal.SIGINT)
        assert ending.is_set()
        assert ending.wait()
    assert ending.number is signal.SIGINT


def test_signals_upon_signals_meet_no_lock_of_their_own() -> None:
    """A handler that sets an event would sooner or later wait for the lock that is held below it."""
    # Not ignored: of an ignored signal the kernel does not wind its timer up again.
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 1e-4, 1e-4)
    try:
        for _ in range(500):
            with Ending(signal.SIGALRM) as ending:
                assert ending.wait()
            assert ending.number is signal.SIGALRM
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def test_a_signal_ends_a_wait_for_ever() -> None:
    with Ending(signal.SIGTERM) as ending:
        sender = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGTERM))
        sender.start()
        assert ending.wait()
        sender.join()
    assert ending.number is signal.SIGTERM


def test_a_signal_that_comes_as_the_wait_begins_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python runs no handler for what comes between its last look for signals and the sleep of the main thread.

    With signals at random moments a wait on a lock slept on in one of a thousand of them. Here the handler never runs
    in time: what Python writes at the signal itself must be enough.
    """
    monkeypatch.setattr(Ending, "_hear", lambda *_: None)
    with Ending(signal.SIGTERM) as ending:
        signal.raise_signal(signal.SIGTERM)
        assert not ending.is_set()
        assert ending.wait()
    assert ending.number is signal.SIGTERM


def test_signals_of_others_do_not_end_it() -> None:
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    wakeup_before = signal.set_wakeup_fd(-1)
    try:
        with Ending(signal.SIGTERM) as ending:
            for _ in range(100_000):  # more than the pipe holds
                signal.raise_signal(signal.SIGUSR1)
            assert not ending.wait(0.0)
            ending.end(signal.SIGTERM)
            assert ending.wait()
        assert signal.set_wakeup_fd(-1) == -1
    finally:
        signal.set_wakeup_fd(wakeup_before)
        signal.signal(signal.SIGUSR1, before)


def test_another_thread_ends_it_without_a_signal() -> None:
    with Ending(signal.SIGTERM) as ending:
        threading.Thread(target=ending.end).start()
        assert ending.wait()
        assert ending.wait(), "it stays so"
    assert ending.number is None


def test_the_first_signal_counts_and_handlers_are_as_before() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGHUP)]
    with Ending(signal.SIGINT, signal.SIGHUP) as ending:
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGINT)
        assert ending.number is signal.SIGHUP
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGHUP)] == before
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
