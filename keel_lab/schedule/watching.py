"""What `keel-lab status --watch` shows: a sweep that another process runs, until nobody runs it any more."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import IO, Any

from keel_lab.errors import IncompleteError
from keel_lab.schedule.live_snapshot import EVERY
from keel_lab.schedule.status import FAILED, RUNNING, WAITING, read_status, status_text
from keel_lab.store import lease
from keel_lab.store.root import Root
from keel_lab.store.sweeps import Sweeps

_FRAME = 6  # lines of a terminal that are not rows
LINE_EVERY = 10.0  # seconds between two lines for a pipe in which only steps have changed
Pause = Callable[[float], None]


def watch(name: str, root: Root, stream: IO[str], *, as_json: bool, pause: Pause = time.sleep) -> int:
    """Follows a sweep until it is complete or nobody runs it.

    A terminal sees the table redrawn in place; a pipe gets a line when something changed, and the table at the end;
    with `as_json` every change is a JSON object on a line of its own.

    Returns:
        The exit code: 0 complete, 1 some trials failed, 3 incomplete.

    Raises:
        UsageError: if there is no sweep of that name, and nobody is about to store one.
    """
    _wait_for(name, root, pause)
    with ExitStack() as stack:
        show = _json_lines(stream) if as_json else _table(stack, stream) if stream.isatty() else _lines(stream)
        status: Mapping[str, Any] = {}
        for status in _until_its_end(name, root, pause):
            show(status)
    if not as_json and not stream.isatty():
        print(status_text(status), file=stream)
    return exit_code(status)


def exit_code(status: Mapping[str, Any]) -> int:
    """The exit code of a run that ended in this status."""
    left = set(status["states"]) & {WAITING, RUNNING, "stopped"}
    return IncompleteError.exit_code if left else int(FAILED in status["states"])


def _wait_for(name: str, root: Root, pause: Pause) -> None:
    """Until a driver that has just begun has stored the sweep."""
    while Sweeps(root).find(name) is None and lease.holder(root, name):
        pause(EVERY)
    Sweeps(root).load(name)  # says what is wrong before a terminal is made ready


def _until_its_end(name: str, root: Root, pause: Pause) -> Iterator[Mapping[str, Any]]:
    while True:
        status = read_status(name, root)
        yield status
        if status["complete"] or not status["driver"]:
            return
        pause(EVERY)


def _table(stack: ExitStack, stream: IO[str]) -> Callable[[Mapping[str, Any]], None]:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(file=stream)
    live = stack.enter_context(Live(console=console, auto_refresh=False, vertical_overflow="crop"))

    def show(status: Mapping[str, Any]) -> None:
        ends = status["complete"] or not status["driver"]  # what stays on the screen is the whole table
        room = None if ends else max(1, console.height - _FRAME)
        live.vertical_overflow = "visible" if ends else "crop"
        live.update(Text(status_text(status, room)), refresh=True)

    return show


def _lines(stream: IO[str]) -> Callable[[Mapping[str, Any]], None]:
    before: dict[str, Any] = {"states": None, "due": 0.0}

    def show(status: Mapping[str, Any]) -> None:
        if status["states"] != before["states"] or time.monotonic() >= before["due"]:
            before.update(states=status["states"], due=time.monotonic() + LINE_EVERY)
            print(line(status), file=stream, flush=True)

    return show


def line(status: Mapping[str, Any]) -> str:
    """`quickstart: 3 diverged, 2 running, 1 waiting (post_ln-b16-s0 54/600, ...)`."""
    rows = [row for cell in status["cells"] for row in cell["trials"] if row["state"] == RUNNING]
    running = ", ".join(f"{row['name']} {row['step']}/{row['steps']}" for row in rows[:4])
    states = ", ".join(f"{count} {state}" for state, count in status["states"].items())
    return f"{status['name']}: {states}{f' ({running})' if running else ''}"


def _json_lines(stream: IO[str]) -> Callable[[Mapping[str, Any]], None]:
    before: list[str] = []

    def show(status: Mapping[str, Any]) -> None:
        text = json.dumps(status, allow_nan=False)
        if before[-1:] != [text]:
            before[:] = [text]
            print(text, file=stream, flush=True)

    return show
