"""The composition root: the only module that reaches `trainers` and `analysis`, each function lazily.

Whoever needs architectures, corpora, reports or replays gets them here, so that nothing below depends on either package
and a command loads only what it uses.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analysis.explanation import Explanation
    from keel_lab.architecture import Catalogue
    from keel_lab.diagnostics import Diagnostics, Window
    from keel_lab.gradient_flow import Flow, Probed
    from keel_lab.plan.chosen_lr import MeasuredRates
    from keel_lab.plan.opening import OpenedSweep
    from keel_lab.plan.planned import Cell
    from keel_lab.result import TrialResult
    from keel_lab.schedule.finishing import Reporting
    from keel_lab.schedule.launch import LaunchOptions
    from keel_lab.schedule.summary import RunSummary
    from keel_lab.spec.lr_choice import LrChoice
    from keel_lab.store.lookup import FoundTrial
    from keel_lab.store.root import Root
    from keel_lab.trial import Trial

EXECUTORS = ("ray", "local")


def catalogue() -> Catalogue:
    """The architectures and corpora that ship; modules of the user's own are also found in the current folder."""
    from trainers.catalogue import CATALOGUE

    here = str(Path.cwd())
    if not {"", here} & set(sys.path):
        sys.path.append(here)  # last: a stray json.py there must not shadow anything
    return CATALOGUE


def open_sweep(file: Path, overrides: Sequence[str], root: Callable[[], Root]) -> OpenedSweep:
    """See `plan.opening.open_sweep`; `root` is opened for a sweep whose LRs come from another one."""
    from keel_lab.plan import opening

    return opening.begun(opening.open_sweep(file, overrides, catalogue(), _StoredRates(root)), root, catalogue())


class _StoredRates:
    """`analysis.measured_rates.StoredRates`, which is loaded when the first rate is asked for."""

    def __init__(self, root: Callable[[], Root]) -> None:
        self._root = root
        self._rates: MeasuredRates | None = None

    def rate(self, choice: LrChoice, cell: Cell, trial: Trial) -> tuple[float, str]:
        if self._rates is None:
            from analysis.measured_rates import StoredRates

            self._rates = StoredRates(self._root)
        return self._rates.rate(choice, cell, trial)


def reopen_sweep(name: str, root: Root) -> OpenedSweep:
    """See `plan.opening.reopen_sweep`."""
    from keel_lab.plan import opening

    return opening.reopen_sweep(name, root, catalogue())


def mirror_search(name: str, root: Root, tracking: str) -> tuple[str, bool]:
    """See `search.opening.mirrored`; nothing to say of a sweep that is no search."""
    from keel_lab.search.opening import mirrored
    from keel_lab.store.sweeps import Sweeps

    if not Sweeps(root).load(name).points:
        return "", True
    return mirrored(reopen_sweep(name, root), root, tracking)


def launch(
    opened: OpenedSweep, root: Root, options: LaunchOptions, form: str, show: Callable[[str], None]
) -> RunSummary:
    """See `schedule.launch.launch`; the report is in the format `form`."""
    from keel_lab.schedule import launch as launching

    return launching.launch(opened, root, catalogue(), reporting([opened.spec.name], root, form), options, show)


def run_file(
    file: str | Path,
    overrides: Sequence[str] | Mapping[str, Any],
    storage: str | Path | None,
    executor: str,
    ray_address: str | None,
    tracking: str | None,
) -> RunSummary:
    """See `keel_lab.run`."""
    from keel_lab.errors import UsageError
    from keel_lab.schedule.finishing import SIGNALLED
    from keel_lab.schedule.launch import LaunchOptions
    from keel_lab.store.root import resolve_root

    if executor not in EXECUTORS:
        raise UsageError(f"executor: found {executor!r}; must be {' or '.join(EXECUTORS)}")
    if isinstance(overrides, str):
        raise UsageError(f"overrides: found the text {overrides!r}; give a list of texts, or a dict")
    if isinstance(overrides, Mapping):
        overrides = [f"{key}={json.dumps(value)}" for key, value in overrides.items()]
    root = resolve_root(None if storage is None else str(storage))
    options = LaunchOptions(executor, ray_address, tracking)
    summary = launch(open_sweep(Path(file), overrides, lambda: root), root, options, "text", lambda table: None)
    if summary.exit_code == SIGNALLED + signal.SIGINT:
        raise KeyboardInterrupt
    if summary.exit_code > SIGNALLED:
        raise SystemExit(summary.exit_code)
    return summary


def reporting(names: Sequence[str], root: Root, form: str) -> Reporting:
    """The report of stored sweeps; tables and figures are made when they are asked for."""
    import analysis.report as report_of
    from keel_lab.schedule.finishing import Reporting

    return Reporting(
        table=lambda: report_of.build(names, root, form),
        markdown=lambda: report_of.build(names, root, "md"),
        figures=lambda: report_of.store_figures(names, root),
    )


def explain(found: FoundTrial, root: Root, sweep: str | None) -> Explanation:
    """See `analysis.explanation.explain`; trains the trial again, once, to look inside."""
    import analysis.explanation as explaining

    def replay(trial: Trial, result: TrialResult, window: Window, onset: int | None) -> Diagnostics:
        from keel_lab.schedule.finishing import say
        from trainers.diagnosis import diagnose

        say(f"training {trial.id} again, {window.last} steps, to look inside (once)")
        return diagnose(trial, result, root, window, onset)

    return explaining.explain(found, root, replay, sweep)


def explanation_text(explanation: Explanation) -> str:
    """The explanation for a terminal."""
    import analysis.evidence

    return analysis.evidence.text(explanation)


def explanation_figures(explanation: Explanation, root: Root) -> list[Path]:
    """Draws the explanation into storage."""
    import analysis.explanation as explaining

    return explaining.store_figures(explanation, root)


def probe(opened: OpenedSweep, root: Root, at: str) -> list[Probed]:
    """Measures every trial of a sweep at the moments `at`, see `keel_lab.gradient_flow.moments`.

    Raises:
        UsageError: if `at` is no list of moments, or a trial cannot be trained here.
    """
    from keel_lab import gradient_flow
    from keel_lab.plan.opening import store_corpus

    trials = [planned.trial for planned in opened.plan.trials]
    asked = [gradient_flow.moments(at, trial.schedule.steps) for trial in trials]  # all words, before anything runs
    if opened.facts.vocab:
        store_corpus(opened, root, catalogue())
    numbered = list(zip(opened.plan.trials, asked, strict=True))
    return [
        gradient_flow.Probed(planned, _flow(planned.trial, root, steps, f"{number} of {len(trials)}: {planned.name}"))
        for number, (planned, steps) in enumerate(numbered, start=1)
    ]


def _flow(trial: Trial, root: Root, steps: Sequence[int], name: str) -> Flow:
    """The measurements from storage, or made and stored."""
    from keel_lab.schedule.finishing import say
    from keel_lab.store import flows
    from trainers.gradient_flow import measure_flow

    stored = flows.load(root, trial.id)
    known = () if stored is None else stored.steps
    if stored is None or not set(steps) <= set(known):
        steps_with_known = sorted({*steps, *known})
        say(f"probing {name}" + (f", training {steps_with_known[-1]} steps" if steps_with_known[-1] else ""))
        stored = flows.save(root, measure_flow(trial, root, steps_with_known))
    return stored.at(steps)


def probe_report(sweep: str, probed: Sequence[Probed], form: str) -> str:
    """See `analysis.gradient_flow.build`."""
    import analysis.gradient_flow

    return analysis.gradient_flow.build(sweep, probed, form)


def probe_figures(sweep: str, probed: Sequence[Probed], root: Root) -> list[Path]:
    """Draws what was measured into storage."""
    import analysis.gradient_flow

    return analysis.gradient_flow.store_figures(sweep, probed, root)
