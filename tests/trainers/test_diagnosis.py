"""The replay: it changes no number, measures what it says it does, and refuses to explain another run."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from keel_lab import diagnostics as names
from keel_lab.curve import Curve
from keel_lab.detect.verdict import Status, Verdict
from keel_lab.diagnostics import Diagnostics, Window
from keel_lab.errors import UsageError
from keel_lab.result import Outcome, TrialResult
from keel_lab.settings import TrainSettings
from keel_lab.store.root import Root
from keel_lab.store.trials import Trials
from keel_lab.trial import Trial
from tests.trainers.job_cases import SHAPE, Fit, trial
from tests.trainers.schemes import options
from trainers.diagnosis import ReplayError, diagnose
from trainers.model import build
from trainers.probe import Probe, _attention_logit, parts

STEPS, WINDOW = 14, Window(6, 14)


def stored(
    data: Path, folder: Path, curve: Curve, execution: dict[str, object], one: Trial
) -> tuple[Root, TrialResult]:
    """A root that holds the trial as finished, and its data."""
    root, made = Root.open(folder / "store"), Trials(Root.open(folder / "store"))
    assert one.data is not None
    for file in data.iterdir():
        root.write_file(f"data/{one.data.fingerprint}/{file.name}", file)
    verdict = Verdict(Status.HEALTHY, last_good_step=len(curve), censored=True)
    result = TrialResult(one.id, Outcome.COMPLETED, len(curve), verdict, {}, execution=execution)
    made.put_trial(one)
    made.commit(result, curve)
    return root, result


@pytest.mark.parametrize(
    ("architecture", "shape"),
    [
        ("pre_ln", {}),
        ("hybridnorm", {}),
        ("keel", {}),
        ("admin", {"tied_head": True, "ffn": "gelu"}),
        ("residual_dual", {"ffn": "moe", "qk_norm": True}),
        ("rezero", {}),
        ("highway", {}),
    ],
)
def test_a_replay_changes_no_number(
    fit: Fit, data: Path, tmp_path: Path, architecture: str, shape: dict[str, object]
) -> None:
    changes = {"architecture": architecture, "options": options(architecture, 2), "blocks": 2}
    changes["model"] = SHAPE.model_copy(update=shape)
    changes["train"] = TrainSettings(batch_size=4, accumulate=2)
    report = fit(STEPS, **changes)
    execution = {key: value for key, value in report.execution.items() if key not in ("unigram_entropy", "chance")}
    one = trial(data, **changes)
    root, result = stored(data, tmp_path, report.curve, execution, one)
    found = diagnose(one, result, root, WINDOW, None)
    assert found.fidelity.exact
    assert found.fidelity.largest_difference == 0.0
    assert set(found.fidelity.execution) == {"host"}  # which this fit did not record
    assert found.steps == tuple(range(6, 15))
    assert found.answers(report.curve, WINDOW)
    assert not found.answers(report.curve, Window(5, 14))
    squares = [sum(value**2 for value in row) for row in found.values[names.GRAD_NORM]]
    recorded = [step.grad_norm for step in report.curve.steps[5:]]
    assert [math.sqrt(square) for square in squares] == pytest.approx(recorded, rel=1e-5)
    for name in names.MEASURES:
        assert all(len(row) == len(found.places[name]) for row in found.values[name])
    content = found.to_parquet()
    assert Diagnostics.from_parquet(content).to_parquet() == content


def test_a_slightly_different_curve_is_said_and_a_very_different_one_refused(
    fit: Fit, data: Path, tmp_path: Path
) -> None:
    report, one = fit(STEPS), trial(data)
    nudged, broken = Curve(), Curve()
    for step in report.curve:
        nudged.append(step._replace(loss=step.loss + 0.01) if step.step == 9 else step)
        broken.append(step._replace(loss=step.loss + 0.2) if step.step == 9 else step)
    root, result = stored(data, tmp_path / "nudged", nudged, {"torch": "1.0"}, one)
    found = diagnose(one, result, root, WINDOW, None).fidelity
    assert (found.first_difference, found.execution["torch"]) == (9, ("1.0", torch.__version__))
    assert found.largest_difference == pytest.approx(0.01)
    root, result = stored(data, tmp_path / "broken", broken, {"torch": "1.0"}, one)
    with pytest.raises(ReplayError, match=r"at step 9 the loss is .* torch 1.0 then"):
        diagnose(one, result, root, WINDOW, None)
    after = diagnose(one, result, root, WINDOW, onset=9).fidelity  # chaos after the onset is no other run
    assert (after.first_difference, after.largest_difference) == (9, 0.0)


def test_the_run_of_another_trainer_is_refused(data: Path, tmp_path: Path, fit: Fit) -> None:
    one = trial(data).model_copy(update={"trainer": "my.trainer"})
    root, result = stored(data, tmp_path, fit(STEPS).curve, {}, one)
    with pytest.raises(UsageError, match=r"my\.trainer"):
        diagnose(one, result, root, WINDOW, None)


def test_the_parts_hold_every_parameter_once(data: Path) -> None:
    model = build(trial(data, architecture="hybridnorm", blocks=2))
    held = [id(parameter) for part in parts(model).values() for parameter in part]
    assert sorted(held) == sorted(id(parameter) for parameter in model.parameters())
    assert list(parts(model)) == [
        "embedding", "block 0 attention", "block 0 FFN", "block 1 attention", "block 1 FFN", "final norm", "head",
    ]  # fmt: skip


def test_the_attention_logit_is_the_largest_over_causal_pairs(data: Path) -> None:
    branch = build(trial(data)).stack.branches[0]
    x = torch.randn(3, SHAPE.context, SHAPE.width, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        q, k = branch.queries_and_keys(x)  # type: ignore[operator]
        seen = [
            abs(float(q[b, h, i] @ k[b, 0, j])) / math.sqrt(branch.head_width)  # type: ignore[arg-type]
            for b in range(3)
            for h in range(SHAPE.heads)
            for i in range(SHAPE.context)
            for j in range(i + 1)
        ]
    assert float(_attention_logit(branch, x)) == pytest.approx(max(seen), rel=1e-5)  # type: ignore[arg-type]


def test_update_ratios_are_those_of_the_weights(data: Path) -> None:
    model = build(trial(data))
    probe = Probe(model, 1)
    probe._hooked = True
    probe.on_before_optimizer_step(None, None, None)  # type: ignore[arg-type]
    with torch.no_grad():
        model.head.mul_(1.5)
        model.stack.branches[1].gate.mul_(1.2)  # type: ignore[operator,union-attr]
    ratios = {name: probe._ratios(name) for name in parts(model)}
    assert ratios["head"].tolist() == pytest.approx([0.5])
    assert float(ratios["block 0 FFN"].max()) == pytest.approx(0.2)
    assert float(ratios["block 0 FFN"].median()) == 0.0
    assert float(ratios["embedding"].max()) == 0.0
    assert math.isnan(float(ratios["final norm"].max()))  # gains only


def test_diagnostics_of_a_newer_schema_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Diagnostics("a" * 16, "b", names.Fidelity(), (1,), dict.fromkeys(names.MEASURES, ("x",)),
                       {n: [[1.0]] for n in names.MEASURES})  # fmt: skip
    content = replace(made, steps=(2,)).to_parquet()
    monkeypatch.setattr(names, "SCHEMA", 0)
    with pytest.raises(UsageError, match="schema 1"):
        Diagnostics.from_parquet(content)
    with pytest.raises(ValueError, match="not diagnostics"):
        Diagnostics.from_parquet(b"PAR1")
