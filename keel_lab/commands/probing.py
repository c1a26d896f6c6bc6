"""The command that looks inside models at chosen moments of their training."""

from __future__ import annotations

from pathlib import Path

import click

from keel_lab.commands.options import FILE, OVERRIDES, STORAGE, TRACKING, open_root

_FORMATS = click.Choice(["text", "md", "csv", "json"])


@click.command()
@FILE
@OVERRIDES
@click.option("--at", default="init,1%,10%,50%,100%", show_default=True, help="Moments: init, shares, or steps.")
@click.option("--format", "form", type=_FORMATS, default="text", show_default=True, help="Of the table.")
@click.option("--json", "as_json", is_flag=True, help="As --format json.")
@TRACKING
@STORAGE
def probe(
    file: Path,
    overrides: tuple[str, ...],
    at: str,
    form: str,
    as_json: bool,
    tracking: str | None,
    storage: str | None,
) -> None:
    """Measure how activations and gradients flow through the models of FILE, beside what theory predicts.

    Each trial trains in this process up to the last moment; --at init trains nothing. What was measured is kept in the
    storage, under probes/, and not measured again; table and figures go to the run `probe` of the sweep's MLflow
    experiment.
    """
    from keel_lab import composition
    from keel_lab.track.destination import tracking_uri
    from keel_lab.track.probe_run import log_probe

    root = open_root(storage)
    uri = tracking_uri(tracking, root.uri)
    opened = composition.open_sweep(file, overrides, lambda: root)
    probed = composition.probe(opened, root, at)
    click.echo(composition.probe_report(opened.spec.name, probed, "json" if as_json else form), nl=False)
    figures = composition.probe_figures(opened.spec.name, probed, root)
    for figure in figures:
        click.echo(f"figure: {figure}", err=True)
    if uri is not None:
        tables = {f"probe.{form}": composition.probe_report(opened.spec.name, probed, form) for form in ("md", "csv")}
        files = {name: text.encode() for name, text in tables.items()}
        files |= {figure.name: figure.read_bytes() for figure in figures}
        click.echo(log_probe(opened.spec.name, opened.stored().spec, root.uri, uri, files), err=True)
