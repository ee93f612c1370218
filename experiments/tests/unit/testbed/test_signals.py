"""Signals that end a command, whoever started it."""

from __future__ import annotations

import signal

import pytest

from experiments.testbed.signals import ending_signals
from experiments.tests.started import disposition


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_command_ends_though_its_caller_ignored_the_signal(number: signal.Signals) -> None:
    with (
        disposition(number, signal.SIG_IGN),
        ending_signals(print),
        pytest.raises(KeyboardInterrupt),
    ):
        signal.raise_signal(number)


def test_each_signal_is_said_at_once_also_where_the_terminal_is_gone() -> None:
    said: list[str] = []
    with ending_signals(said.append), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert len(said) == 1

    def gone(_: str) -> None:
        raise BrokenPipeError

    with ending_signals(gone), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_under_nohup_a_command_goes_on_when_its_terminal_is_gone() -> None:
    with disposition(signal.SIGHUP, signal.SIG_IGN), ending_signals(print):
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
