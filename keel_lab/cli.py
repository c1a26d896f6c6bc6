"""The command line: the composition root, the only module that reaches `trainers` and `analysis`, and lazily.

Data goes to stdout; logs, progress and errors to stderr. Exit codes: 0 complete (diverged trials count as complete), 1
some trials failed, 2 usage or sweep file, 3 incomplete but resumable, 130/143 signals.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keel_lab import __version__
from keel_lab.command_options import AS_JSON, FORMAT, STORAGE, run_options
from keel_lab.errors import KeelLabError

if TYPE_CHECKING:
    from analysis.explanation import Replay
    from keel_lab.diagnostics import Diagnostics, Window
    from keel_lab.plan.opening import OpenedSweep
    from keel_lab.result import TrialResult
    from keel_lab.schedule.launch import Reporting
    from keel_lab.store.root import Root
    from keel_lab.trial import Trial


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, package_name="keel-lab", prog_name="keel-lab")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def cli(debug: bool) -> None:
    """Measure how large a learning rate a Transformer architecture tolerates at a depth."""


@cli.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
@run_options
@click.pass_context
def run(context: click.Context, /, file: Path, overrides: tuple[str, ...], **options: Any) -> None:
    """Run the sweep in FILE and print its report; what is already in storage is not run again."""
    from keel_lab.plan.opening import open_sweep
    from trainers.catalogue import CATALOGUE

    root = _root(options["storage"])
    context.exit(_launch(open_sweep(file, overrides, CATALOGUE), root, options))


@cli.command()
@click.argument("name")
@run_options
@click.pass_context
def resume(context: click.Context, /, name: str, **options: Any) -> None:
    """Go on with the stored sweep NAME: finished trials are not run again, stopped ones go on from their checkpoint."""
    from keel_lab.plan.opening import reopen_sweep
    from trainers.catalogue import CATALOGUE

    root = _root(options["storage"])
    context.exit(_launch(reopen_sweep(name, root, CATALOGUE), root, options))


@cli.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
@STORAGE
@AS_JSON
def plan(file: Path, overrides: tuple[str, ...], storage: str | None, as_json: bool) -> None:
    """Show what FILE would run: trials per cell, duplicates, what is already done, parameters, tokens, time."""
    from keel_lab.plan.describe import describe_plan
    from keel_lab.plan.opening import open_sweep
    from trainers.catalogue import CATALOGUE

    click.echo(describe_plan(open_sweep(file, overrides, CATALOGUE), _root(storage), as_json=as_json))


@cli.command()
@click.argument("name")
@STORAGE
@AS_JSON
def status(name: str, storage: str | None, as_json: bool) -> None:
    """Show how far the stored sweep NAME is, cell by cell."""
    from keel_lab.schedule.status import describe_status

    click.echo(describe_status(name, _root(storage), as_json=as_json))


@cli.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@FORMAT
@STORAGE
def report(names: Sequence[str], form: str, storage: str | None) -> None:
    """Print the table of the stored sweeps NAME..., and draw their figures into the storage."""
    reporting = _reporting(names, _root(storage), form)
    click.echo(reporting.table(), nl=False)
    if form in ("text", "md"):
        _say_figures(reporting)


class _Judge(click.Command):
    """Lets `--siblings` take every file up to the next option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        from keel_lab.judge.command import spread

        return super().parse_args(ctx, spread(args))


@cli.command(cls=_Judge)
@click.argument("arguments", nargs=-1, required=True, metavar="FILE[@LR]... [divergence.KEY=VALUE]...")
@click.option("--siblings", multiple=True, metavar="FILE[@LR]...", help="Runs on the same data at lower LR; last.")
@click.option("--step", metavar="COLUMN", help="Name of the step column, where it is not found by itself.")
@click.option("--loss", metavar="COLUMN", help="... of the loss, nats.")
@click.option("--lr", metavar="COLUMN|LR", help="... of the LR; or one LR for every FILE.")
@click.option("--grad-norm", metavar="COLUMN", help="... of the gradient norm before clipping.")
@click.option("--unigram-loss", metavar="COLUMN", help="... of the batches' unigram loss: judges the paired loss.")
@click.option("--chance", type=float, metavar="NATS", help="Loss at chance: log of the vocabulary.")
@click.option("--unigram", type=float, metavar="NATS", help="H1: loss of a model that knows token frequencies only.")
@click.option("--tracking", metavar="URI", help="MLflow, for run ids; else MLFLOW_TRACKING_URI, else SQLite.")
@STORAGE
@AS_JSON
def judge(arguments: Sequence[str], siblings: Sequence[str], as_json: bool, **options: Any) -> None:
    """Say of each loss curve FILE whether, how and from which step on it diverged.

    FILE is CSV, JSONL, Parquet or the id of an MLflow run. FILE@1e-3 gives an LR that the file does not hold.
    """
    from keel_lab.judge.columns import Columns
    from keel_lab.judge.command import Request, judge_files
    from keel_lab.judge.judgement import Levels
    from keel_lab.track.destination import tracking_uri

    columns = Columns(*(options[name] for name in ("step", "loss", "lr", "grad_norm", "unigram_loss")))
    levels = Levels(options["chance"], options["unigram"])
    uri = lambda: tracking_uri(options["tracking"], _root(options["storage"]).uri)  # noqa: E731
    click.echo(judge_files(Request(arguments, siblings, columns, levels, uri), as_json=as_json))


@cli.command()
@click.argument("name")
@click.argument("overrides", nargs=-1, metavar="[divergence.KEY=VALUE]...")
@STORAGE
@AS_JSON
def rejudge(name: str, overrides: tuple[str, ...], storage: str | None, as_json: bool) -> None:
    """Judge the stored curves of sweep NAME anew under other thresholds; earlier verdicts are kept and shown."""
    from keel_lab.schedule.rejudge import describe_rejudgement

    click.echo(describe_rejudgement(name, overrides, _root(storage), as_json=as_json))


@cli.command()
@click.argument("trial")
@click.option("--sweep", metavar="NAME", help="The sweep in which TRIAL is a name, or whose thresholds count.")
@STORAGE
@AS_JSON
def explain(trial: str, sweep: str | None, storage: str | None, as_json: bool) -> None:
    """Show why TRIAL got its verdict: the evidence, and what moved first inside the model.

    TRIAL is an id, the beginning of one, or a name such as keel-b16-s0. The first time, the trial is trained again up
    to a little after its onset, to look inside; what was seen is stored beside it.
    """
    import analysis.evidence
    import analysis.explanation as explaining
    from keel_lab.store.lookup import find_trial

    root = _root(storage)
    explanation = explaining.explain(find_trial(root, trial, sweep), root, _replay(root), sweep)
    click.echo(explanation.to_json() if as_json else analysis.evidence.text(explanation))
    for figure in explaining.store_figures(explanation, root):
        click.echo(f"figure: {figure}", err=True)
    if explanation.refusal is not None:
        raise explanation.refusal


def _replay(root: Root) -> Replay:
    def replay(trial: Trial, result: TrialResult, window: Window, onset: int | None) -> Diagnostics:
        from trainers.diagnosis import diagnose

        click.echo(f"training {trial.id} again, {window.last} steps, to look inside (once)", err=True)
        return diagnose(trial, result, root, window, onset)

    return replay


def _root(storage: str | None) -> Root:
    from keel_lab.store.root import resolve_root

    return resolve_root(storage)


def _launch(opened: OpenedSweep, root: Root, options: dict[str, Any]) -> int:
    from keel_lab.schedule.launch import LaunchOptions, launch
    from trainers.catalogue import CATALOGUE

    chosen = LaunchOptions(options["executor"], options["ray_address"], options["tracking"])
    reporting = _reporting([opened.spec.name], root, options["form"])
    return launch(opened, root, CATALOGUE, reporting, chosen)


def _say_figures(reporting: Reporting) -> None:
    """Draws the figures; who may only read the storage still has the table."""
    from keel_lab.store.root import StorageError

    try:
        for figure in reporting.figures():
            click.echo(f"figure: {figure}", err=True)
    except StorageError as error:
        click.echo(f"no figures: {error}", err=True)


def _reporting(names: Sequence[str], root: Root, form: str) -> Reporting:
    import analysis.report as report_of
    from keel_lab.schedule.launch import Reporting

    return Reporting(
        table=lambda: report_of.build(names, root, form),
        markdown=lambda: report_of.build(names, root, "md"),
        figures=lambda: report_of.store_figures(names, root),
    )


def console() -> None:
    """Entry point of `keel-lab`.

    Ends the process without the interpreter's own clean-up once all is written and closed: pyarrow's threads now and
    then abort it there (25.0.1, after reading Parquet: "terminate called without an active exception").
    """
    code: object = 0
    try:
        main()
    except SystemExit as end:
        code = end.code
    if isinstance(code, str):
        click.echo(code, err=True)
    with suppress(BrokenPipeError):  # whoever read our output is gone
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


def main() -> None:
    """The command line as a function: an error that a user can mend is a message and an exit code, no traceback."""
    try:
        code = cli.main(standalone_mode=False)
    except KeelLabError as error:
        if "--debug" in sys.argv:
            raise
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:  # Ctrl-C outside of a running sweep, which has its own handlers
        click.echo("interrupted", err=True)
        sys.exit(130)
    except BrokenPipeError:  # whoever read our output is gone
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)
