"""Commands about verdicts: of foreign curves, under other thresholds, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from keel_lab.commands.completion import sweep_names
from keel_lab.commands.options import AS_JSON, NAME, STORAGE, open_root


class _Judge(click.Command):
    """Lets `--siblings` take every file up to the next option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        from keel_lab.judge.command import spread

        return super().parse_args(ctx, spread(args))


@click.command(cls=_Judge)
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
    uri = lambda: tracking_uri(options["tracking"], open_root(options["storage"]).uri)  # noqa: E731
    click.echo(judge_files(Request(arguments, siblings, columns, levels, uri), as_json=as_json))


@click.command()
@NAME
@click.argument("overrides", nargs=-1, metavar="[divergence.KEY=VALUE]...")
@STORAGE
@AS_JSON
def rejudge(name: str, overrides: tuple[str, ...], storage: str | None, as_json: bool) -> None:
    """Judge the stored curves of sweep NAME anew under other thresholds; earlier verdicts are kept and shown."""
    from keel_lab.schedule.rejudge import describe_rejudgement

    click.echo(describe_rejudgement(name, overrides, open_root(storage), as_json=as_json))


@click.command()
@click.argument("trial")
@click.option(
    "--sweep",
    metavar="NAME",
    shell_complete=sweep_names,
    help="The sweep in which TRIAL is a name, or whose thresholds count.",
)
@STORAGE
@AS_JSON
def explain(trial: str, sweep: str | None, storage: str | None, as_json: bool) -> None:
    """Show why TRIAL got its verdict: the evidence, and what moved first inside the model.

    TRIAL is an id, the beginning of one, or a name such as keel-b16-s0 or SWEEP/keel-b16-s0. The first time, the trial
    is trained again up to a little after its onset, to look inside; what was seen is stored beside it.
    """
    from keel_lab import composition
    from keel_lab.store.lookup import find_trial

    root = open_root(storage)
    explanation = composition.explain(find_trial(root, trial, sweep), root, sweep)
    click.echo(explanation.to_json() if as_json else composition.explanation_text(explanation))
    for figure in composition.explanation_figures(explanation, root):
        click.echo(f"figure: {figure}", err=True)
    if explanation.refusal is not None:
        raise explanation.refusal
