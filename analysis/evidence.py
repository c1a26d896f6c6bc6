"""An explanation in words: the verdict with its evidence, how faithful the replay was, what moved first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from analysis import notation, ramp
from analysis.explanation import LEAST_LOGIT, RANKED, UPDATE_PER_LR, Explanation
from analysis.first_moves import FACTOR, HELD, LEAST_BASELINE, MADS, FirstMove, baseline_steps, before, first_moves
from keel_lab import diagnostics as names
from keel_lab.columns import aligned
from keel_lab.detect.max_lr import max_lr
from keel_lab.diagnostics import Fidelity
from keel_lab.settings import RampSchedule
from keel_lab.spec.label import label_text

WORDS = {
    names.GRAD_NORM: "gradient norm",
    UPDATE_PER_LR: "update/weight per LR",
    names.ATTENTION_LOGIT: "attention-logit max",
    names.OUTPUT_LOGIT: "output-logit max",
    names.STREAM_RMS: "stream rms",
}


def text(explanation: Explanation) -> str:
    """The explanation for a terminal, without a trailing newline."""
    facts = [*_facts(explanation)]
    return "\n".join([_title(explanation), "", aligned(facts), "", *_moves(explanation)])


def _title(explanation: Explanation) -> str:
    trial = explanation.trial
    schedule = trial.schedule
    shape = (
        ramp.title(schedule)
        if isinstance(schedule, RampSchedule)
        else f"{schedule.shape} schedule, LR {label_text(schedule.lr)}, {schedule.steps} steps"
    )
    where = f" in sweep {explanation.sweep}" if explanation.sweep else ""
    return (
        f"{explanation.found.name} ({trial.id}){where}: {trial.blocks} blocks ({trial.sublayers} sub-layers), {shape}"
    )


def _facts(explanation: Explanation) -> Iterator[tuple[str, str]]:
    verdict, evidence = explanation.verdict, explanation.verdict.evidence
    mode = f" ({verdict.mode})" if verdict.mode else ""
    yield "verdict", f"{verdict.status}{mode}, by {verdict.detector}, rule {evidence.get('rule', 'unknown')}"
    if isinstance(explanation.trial.schedule, RampSchedule):
        yield "Max LR", max_lr(verdict).text(notation.reading)
    if verdict.onset_step is not None:
        yield "onset", _onset(explanation)
    for name in ("alarm", "confirmed"):
        if evidence.get(f"{name}_step") is not None:
            yield name, f"step {evidence[f'{name}_step']}"
    yield from _levels(evidence)
    if "transients" in evidence:
        at = ", ".join(map(str, evidence.get("transient_steps", [])))
        yield "transients", f"{evidence['transients']}" + (f", at {at}" if at else "")
    if evidence.get("non_finite_steps"):
        yield "not finite", f"{evidence['non_finite_steps']} steps"
    if "detectors" in evidence:
        yield "detectors", "they agree" if evidence.get("agree") else str(evidence.get("disagreement"))
    if "siblings" in evidence:
        siblings = evidence["siblings"]
        yield "siblings", f"{siblings.get('finding')}; used: {', '.join(siblings.get('used', [])) or 'none'}"
    if "reversal" in evidence:
        yield "reversal", str(evidence["reversal"]["finding"])
    if "curve_ends_at" in evidence:
        yield "curve", f"ends at step {evidence['curve_ends_at']}, too early to say under these thresholds"
    if explanation.diagnostics is not None:
        yield "replay", _replay(explanation.diagnostics.fidelity, explanation)
    else:
        yield "replay", "refused, see the error below"


def _onset(explanation: Explanation) -> str:
    bad = explanation.onset
    assert bad is not None
    lr = {step.step: step.lr for step in explanation.curve}
    good = explanation.verdict.last_good_step
    if good is None:
        return f"step {bad} (LR {notation.reading(lr[bad])}); no good step before it"
    return f"after step {good} (LR {notation.reading(lr[good])}), first bad step {bad} (LR {notation.reading(lr[bad])})"


def _levels(evidence: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    def nats(name: str) -> str:
        error = evidence.get(f"{name}_error")
        return f"{evidence[name]:.3f}" + (f" +- {error:.3f}" if error is not None else "")

    said = []
    if evidence.get("best_level") is not None:
        said.append(f"best {nats('best_level')} around step {evidence.get('best_step')}")
    for name, words in (("reference", "reference"), ("level", "last"), ("unigram_entropy", "unigram level H1")):
        if evidence.get(name) is not None:
            said.append(f"{words} {nats(name)}")
    if said:
        yield "levels", ", ".join(said) + " nats a token"
    if evidence.get("sigma") is not None:
        yield "noise", f"sigma {evidence['sigma']:.3f} nats a sample"


def _replay(fidelity: Fidelity, explanation: Explanation) -> str:
    if fidelity.exact:
        return f"exact: every step up to {explanation.window.last} equals the stored curve bit for bit"
    changed = ", ".join(f"{name} was {old}, is {new}" for name, (old, new) in fidelity.execution.items())
    return (
        f"not exact: differs from step {fidelity.first_difference} on, by at most "
        f"{fidelity.largest_difference:.2g} nats before the onset ({changed or 'although the execution is the same'})"
    )


def _moves(explanation: Explanation) -> Iterator[str]:
    diagnostics, onset = explanation.diagnostics, explanation.onset
    if diagnostics is None or explanation.departures is None:
        return
    yield f"What moved first (steps {explanation.window.first} to {explanation.window.last})"
    n = baseline_steps(diagnostics.steps, onset)
    if n < LEAST_BASELINE:
        yield f"Only {n} steps before the onset make the baseline, {LEAST_BASELINE} are needed: nothing can be said."
        return
    places = {name: len(diagnostics.places.get(name, diagnostics.places[names.UPDATE_RATIO])) for name in RANKED}
    moves = first_moves(explanation.departures, places, onset)
    if moves:
        yield aligned([("measure", "place", "step", "onset", "change", "moved"), *(_row(m, onset) for m in moves)], {2})
    still = [WORDS[name] for name in RANKED if not explanation.departures[name]]
    if still:
        yield f"did not move: {', '.join(still)}"
    if onset is not None and not before(onset, moves):
        yield "Nothing moved before the loss."
    yield (
        f"Moved: beyond the level and the drift of the first {n} steps by {MADS:g} median absolute deviations and a "
        f"factor of {FACTOR:g},\n{HELD} steps in a row, and not back before the onset. Change: to the value of those "
        f"{HELD} steps, x over the drift.\nLogits below {LEAST_LOGIT:g} may go anywhere: they hardly bend a softmax."
    )


def _row(move: FirstMove, onset: int | None) -> tuple[str, ...]:
    one = move.departure
    gap = "-" if onset is None else f"{abs(onset - one.step)} {'before' if one.step < onset else 'after'}"
    by = "" if onset is None else " before the onset"
    change = f"{one.direction} to {one.value:.2g}, x {one.factor:.2g}"
    return WORDS[one.measure], one.place, str(one.step), gap, change, f"{move.moved} of {move.places}{by}"
