"""A wrong command line in the words of our other errors: the command, what was found, the remedy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

import click


def usage_message(error: click.ClickException, words: Sequence[str], commands: Iterable[str]) -> str:
    """Two lines: the command with what is wrong, and what the command takes.

    Args:
        error: click's.
        words: the command line.
        commands: names of the commands that there are.
    """
    known = list(commands)
    context = getattr(error, "ctx", None)
    said = error.format_message().rstrip(".")
    said = f"{said[:1].lower()}{said[1:]}"
    if isinstance(error, click.NoSuchOption) and "." in error.option_name:
        said += f" (an override has no dashes: {error.option_name.lstrip('-')}=VALUE)"
    elif said.startswith("no such command"):
        near = difflib.get_close_matches(said.split("'")[1], known, n=1)
        said += f" (did you mean {near[0]}?)" if near else ""
    if "unexpected extra argument" in said and any("=" in word for word in words):
        said += "; keys are overridden by keel-lab run FILE KEY=VALUE"
    if context is None:  # click's parser does not say where it was
        path = " ".join(["keel-lab", *[word for word in words if word in known][:1]])
        return f"{path}: {said}\n{path} --help says more"
    usage = " ".join(context.get_usage().split()).removeprefix("Usage: ")
    return f"{context.command_path}: {said}\nusage: {usage}; --help says more"
