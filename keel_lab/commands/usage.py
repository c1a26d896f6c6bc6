"""A wrong command line in the words of our other errors: the command, what was found, the remedy."""

from __future__ import annotations

import difflib

import click


def usage_message(error: click.ClickException) -> str:
    """Two lines: the command with what is wrong, and what the command takes."""
    context = getattr(error, "ctx", None)
    said = error.format_message().rstrip(".")
    if context is None:
        return f"keel-lab: {said}"
    if said.startswith("No such command"):
        said += _near_command(context, said)
    usage = " ".join(context.get_usage().split()).removeprefix("Usage: ")
    return f"{context.command_path}: {said[:1].lower()}{said[1:]}\nusage: {usage}; --help says more"


def _near_command(context: click.Context, said: str) -> str:
    command = context.command
    assert isinstance(command, click.Group)
    word = said.split("'")[1] if "'" in said else ""
    near = difflib.get_close_matches(word, command.list_commands(context), n=1)
    return f" (did you mean {near[0]}?)" if near else ""
