"""Signals: the first asks, the second raises, and handlers are put back."""

from __future__ import annotations

import os
import signal

import pytest

from keel_lab.schedule.interrupts import Interrupts


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_first_signal_is_noted_and_told(number, code):
    heard = []
    with Interrupts() as interrupts:
        interrupts.on_stop(lambda: heard.append("stop"))
        assert (interrupts.received, interrupts.exit_code) == (None, None)
        os.kill(os.getpid(), number)
        assert (interrupts.received, interrupts.exit_code) == (number, code)
    assert heard == ["stop"]


def test_the_second_signal_of_either_kind_raises_and_the_first_gives_the_code():
    with Interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        assert interrupts.exit_code == 143


def test_handlers_are_put_back():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with Interrupts():
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] != before
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
