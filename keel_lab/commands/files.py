"""Commands that read a sweep file and run nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from keel_lab.commands.options import AS_JSON, FILE, OVERRIDES, STORAGE, open_root

if TYPE_CHECKING:
    from keel_lab.plan.opening import OpenedSweep


@click.command()
@click.argument("file", type=click.Path(path_type=Path), default="sweep.yaml")
def init(file: Path) -> None:
    """Write a commented sweep to FILE (else sweep.yaml) that runs as it is; a file that is there is left alone."""
    from keel_lab.starter import write_starter

    write_starter(file)
    click.echo(f"{file}: written; keel-lab plan {file} shows what it runs, keel-lab run {file} runs it", err=True)


@click.command()
@FILE
@OVERRIDES
@STORAGE
@AS_JSON
@click.pass_context
def validate(
    context: click.Context, /, file: Path, overrides: tuple[str, ...], storage: str | None, as_json: bool
) -> None:
    """Check FILE, its corpus and its models as `run` would; says everything that is wrong. Creates nothing."""
    from keel_lab.composition import open_sweep
    from keel_lab.schedule import validation

    def opened() -> OpenedSweep:
        return open_sweep(file, overrides, lambda: open_root(storage))

    if not as_json:
        click.echo(validation.sentence(str(file), validation.checked(opened())))
        return
    text, code = validation.report(str(file), opened)
    click.echo(text)
    context.exit(code)


@click.command()
@click.option(
    "--format", "form", type=click.Choice(["json", "md"]), default="json", show_default=True, help="md: to read."
)
def schema(form: str) -> None:
    """Print the JSON Schema of sweep files, with which editors complete keys; or every key, to read."""
    from keel_lab.composition import catalogue
    from keel_lab.spec.reference import markdown
    from keel_lab.spec.schema import sweep_schema

    if form == "md":
        click.echo(markdown(catalogue()), nl=False)
        return
    click.echo(json.dumps(sweep_schema(catalogue()), indent=1, ensure_ascii=False))


@click.command()
@FILE
@OVERRIDES
@click.option("--resolved", is_flag=True, help="Print the sweep with every default and range written out, as YAML.")
@STORAGE
@AS_JSON
def plan(file: Path, overrides: tuple[str, ...], resolved: bool, storage: str | None, as_json: bool) -> None:
    """Show what FILE would run: trials per cell, duplicates, what is already done, parameters, tokens, time."""
    from keel_lab.composition import open_sweep
    from keel_lab.plan.describe import describe_plan, describe_resolved

    opened = open_sweep(file, overrides, lambda: open_root(storage))
    for note in opened.notes:
        click.echo(note, err=True)
    if resolved:
        click.echo(describe_resolved(opened, as_json=as_json), nl=as_json)
    else:
        click.echo(describe_plan(opened, open_root(storage), as_json=as_json))
