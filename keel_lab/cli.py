"""The command line: which command is where, and how it ends. Commands are loaded when they are called.

Data goes to stdout; logs, progress and errors to stderr. Exit codes: 0 complete (diverged trials count as complete), 1
some trials failed, 2 usage or sweep file, 3 incomplete but resumable, 130/143 signals.
"""

from __future__ import annotations

import errno
import gc
import importlib
import logging
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NoReturn

import click

from keel_lab import __version__
from keel_lab.errors import KeelLabError

SECTIONS: Mapping[str, Mapping[str, str]] = {  # heading: command: module
    "A sweep file": {"init": "files", "validate": "files", "plan": "files", "schema": "files"},
    "Running": {"run": "running", "resume": "running", "retry": "running"},
    "Looking": {"status": "looking", "logs": "looking", "report": "looking"},
    "Verdicts": {"judge": "verdicts", "rejudge": "verdicts", "explain": "verdicts"},
    "Inside the model": {"probe": "probing"},
    "MLflow": {"sync": "mirror", "ui": "mirror"},
    "Keeping house": {"gc": "keeping"},
}
MODULES = {name: module for commands in SECTIONS.values() for name, module in commands.items()}


class Commands(click.Group):
    """Loads a command's module when the command is called, and all of them, none of which is heavy, for the help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the help."""
        return list(MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, from the function of its name in its module."""
        if cmd_name not in MODULES:
            return None
        command: click.Command = getattr(importlib.import_module(f"keel_lab.commands.{MODULES[cmd_name]}"), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Under the headings of `SECTIONS`."""
        for heading, names in SECTIONS.items():
            with formatter.section(heading):
                rows = [(name, self.get_command(ctx, name)) for name in names]
                formatter.write_dl([(name, command.get_short_help_str(200)) for name, command in rows if command])


def _version(context: click.Context, parameter: click.Parameter, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        from keel_lab.commands.versions import versions

        click.echo(versions(__version__))
        context.exit()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show versions.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error; may stand anywhere on the command line.")
def cli(debug: bool) -> None:
    """Measure how large a learning rate a Transformer architecture tolerates at a depth."""


def console() -> NoReturn:
    """Entry point of `keel-lab`.

    Ends the process without the interpreter's own clean-up once all is written and closed: pyarrow's threads now and
    then abort it there (25.0.1, after reading Parquet: "terminate called without an active exception").
    """
    _open_standard_streams()
    if logging.lastResort is not None:  # which prints what is logged where nobody has configured logging
        said: set[str] = set()
        logging.lastResort.addFilter(lambda record: _is_new(record.getMessage(), said))
    gc.set_threshold(100_000, 50, 50)  # a sweep of thousands is many small objects, none of them in a cycle
    code: object = 0
    try:
        main()
    except SystemExit as end:
        code = end.code
    if isinstance(code, str):
        click.echo(code, err=True)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # whoever read our output is gone, or there is no room for it, which was said
            stream.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


def _is_new(text: str, said: set[str]) -> bool:
    """Whether nothing has said it: a command looks at a damaged file several times."""
    new = text not in said
    said.add(text)
    return new


def _open_standard_streams() -> None:
    """Those that were closed before we began (`>&-`): else a file that we open would be written to by every print."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8", closefd=False))  # noqa: SIM115


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The command line as a function, which ends in `SystemExit`.

    An error that a user can mend is a message and an exit code. So is a fault of ours, which `--debug` shows in full.

    Args:
        arguments: without the program's name; None for those of the process.
    """
    words, debug = without_debug(sys.argv[1:] if arguments is None else arguments)
    words = words or ["--help"]
    try:
        code = cli.main(words, prog_name="keel-lab", standalone_mode=False)
    except click.Abort:  # Ctrl-C outside of a running sweep, which has its own handlers
        click.echo("interrupted", err=True)
        sys.exit(130)
    except BrokenPipeError:  # whoever read our output is gone
        sys.exit(1)
    except Exception as error:  # noqa: BLE001 - the boundary to a person
        if debug:
            traceback.print_exc()
        said, code = _told(error, words)
        click.echo(f"error: {said}", err=True)
    sys.exit(code if isinstance(code, int) else 0)


def _told(error: Exception, words: Sequence[str]) -> tuple[str, int]:
    """What is said of an error, and the exit code."""
    if isinstance(error, KeelLabError):
        return str(error), error.exit_code
    if isinstance(error, click.ClickException):
        from keel_lab.commands.usage import usage_message

        return usage_message(error, words, MODULES), error.exit_code
    if isinstance(error, OSError) and error.errno == errno.ENOSPC and error.filename is None:
        return "standard output cannot be written: no space left; what was stored is stored", 1
    text = " ".join(str(error).split())[:300]
    said = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return f"{said}\nkeel-lab did not foresee this; the same command with --debug shows where it happened", 1


def without_debug(words: Sequence[str]) -> tuple[list[str], bool]:
    """The command line without `--debug`, wherever it stands before `--`, and whether it was there."""
    end = words.index("--") if "--" in words else len(words)
    kept = [word for word in words[:end] if word != "--debug"]
    return [*kept, *words[end:]], len(kept) < end
