"""`keel-lab explain` without its replay: verdict, reuse of what is stored, words, JSON and picture."""

import json
import math
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from analysis import evidence
from analysis.explanation import explain, store_figures
from keel_lab.detect.thresholds import Thresholds
from keel_lab.detect.verdict import Mode, Status, Verdict
from keel_lab.diagnostics import MEASURES, Diagnostics, Fidelity, curve_hash
from keel_lab.errors import KeelLabError, UsageError
from keel_lab.settings import GridSchedule
from keel_lab.store.lookup import find_trial

SUBLAYERS = tuple(f"block {i // 2} {'FFN' if i % 2 else 'attention'}" for i in range(4))
PARTS = ("embedding", *SUBLAYERS, "head")
PLACES = dict(zip(MEASURES, (PARTS, PARTS, PARTS, SUBLAYERS[::2], ("head",), SUBLAYERS), strict=True))
ONSET = 230


class FakeReplay:
    """Diagnostics in which block 1's attention logits grow tenfold at `at`, and nothing else moves."""

    def __init__(self, lab, at=200, fidelity=None):
        self.lab, self.at, self.calls = lab, at, 0
        self.fidelity = fidelity or Fidelity()

    def __call__(self, trial, result, window, onset):
        self.calls += 1
        curve = self.lab.trials.curve(trial.id)
        steps = range(window.first, window.last + 1)
        values = {name: [[self.value(name, i, step, curve) for i in range(len(PLACES[name]))] for step in steps]
                  for name in MEASURES}  # fmt: skip
        return Diagnostics(trial.id, curve_hash(curve, window.last), self.fidelity, tuple(steps), PLACES, values)

    def value(self, name, place, step, curve):
        if name.startswith("update"):
            return curve.steps[step - 1].lr * (place + 1)
        jump = 10.0 if (name, place) == ("attention_logit", 1) and step >= self.at else 1.0
        return 2.0 * jump * math.exp(0.05 * math.sin(1.7 * step + place))


@pytest.fixture
def collapsed(lab, curve_like):
    planned = lab.plan("demo", "keel", 2)
    curve = curve_like(planned.trial, 301, onset=ONSET)
    numbers = {
        "rule": "not_regained", "alarm_step": 250, "confirmed_step": 301, "best_level": 2.41, "best_level_error": 0.02,
        "best_step": 180, "reference": 2.5, "level": 3.02, "sigma": 0.05, "transients": 1, "transient_steps": [90],
        "unigram_entropy": 3.0,
    }  # fmt: skip
    lr = curve.steps[ONSET - 2].lr
    verdict = Verdict(Status.DIVERGED, Mode.COLLAPSE, ONSET, ONSET - 1, lr, learned=True, evidence=numbers)
    lab.finish(planned, verdict, curve=curve)
    lab.save("demo")
    return planned


def told(lab, replay, name="keel-b2-s0", sweep=None):
    return explain(find_trial(lab.root, name, sweep), lab.root, replay, sweep)


def test_it_says_the_verdict_the_evidence_and_what_moved_first(lab, collapsed):
    lines = evidence.text(told(lab, FakeReplay(lab))).splitlines()
    words = {line.split("  ")[0]: line.split("  ", 1)[1].strip() for line in lines[2:11]}
    assert lines[0].startswith(f"keel-b2-s0 ({collapsed.trial.id}) in sweep demo: 2 blocks (4 sub-layers), log ramp")
    assert words["verdict"] == "diverged (collapse), by streaming-2, rule not_regained"
    assert words["Max LR"].endswith("1.91e-2")
    assert words["onset"].startswith("after step 229 (LR 1.91e-2), first bad step 230 (LR ")
    assert words["alarm"] == "step 250"
    assert words["levels"].startswith("best 2.410 +- 0.020 around step 180, reference 2.500, last 3.020, unigram")
    assert words["transients"] == "1, at 90"
    assert words["replay"].startswith("exact: every step up to 280")
    (row,) = [line for line in lines if line.startswith("attention-logit max")]
    assert "block 1 attention" in row
    assert " 200 " in row
    assert "30 before" in row
    assert "1 of 2 before the onset" in row
    assert "did not move: gradient norm, update/weight per LR, output-logit max, stream rms" in lines
    assert "Nothing moved before the loss." not in lines


def test_it_says_so_when_nothing_moved_before_the_loss(lab, collapsed):
    for at in (ONSET, 10_000):
        text = evidence.text(told(lab, Forgetful(lab, at)))
        assert "Nothing moved before the loss." in text.splitlines()


class Forgetful(FakeReplay):
    """Deletes what was stored before, so that the next one is asked."""

    def __init__(self, lab, at):
        super().__init__(lab, at)
        for trial_id in lab.root.list("trials"):
            lab.root.delete(f"trials/{trial_id}/diagnostics.parquet")


def test_the_replay_is_made_once_and_the_second_look_is_the_same(lab, collapsed):
    replay = FakeReplay(lab)
    first, second = told(lab, replay), told(lab, replay)
    assert replay.calls == 1
    assert evidence.text(first) == evidence.text(second)
    assert first.to_json() == second.to_json()


def test_what_is_stored_is_made_again_if_damaged_or_of_another_curve(lab, collapsed, curve_like, caplog):
    replay = FakeReplay(lab)
    told(lab, replay)
    lab.root.write(f"trials/{collapsed.trial.id}/diagnostics.parquet", b"torn")
    told(lab, replay)
    assert replay.calls == 2
    assert "damaged" in caplog.text
    lab.finish(collapsed, lab.diverged(collapsed, ONSET), curve=curve_like(collapsed.trial, 301, onset=ONSET, seed=1))
    told(lab, replay)
    assert replay.calls == 3


def test_an_inexact_replay_and_a_refused_one_are_told(lab, collapsed):
    near = FakeReplay(lab, fidelity=Fidelity(77, 0.004, {"torch": ("2.9", "2.13")}))
    assert "not exact: differs from step 77 on, by at most 0.004 nats before the onset (torch was 2.9, is 2.13)" in (
        evidence.text(told(lab, near))
    )
    Forgetful(lab, 0)

    def refuses(*_):
        raise KeelLabError("no GPU here")

    refused = told(lab, refuses)
    assert str(refused.refusal) == "no GPU here"
    text = evidence.text(refused)
    assert "refused, see the error below" in text
    assert "What moved" not in text
    assert json.loads(refused.to_json())["replay_refused"] == "no GPU here"
    assert len(store_figures(refused, lab.root)) == 2


def test_a_run_without_an_onset_and_one_on_a_grid_schedule(lab, curve_like):
    schedule = GridSchedule(lr=1e-3, steps=300)
    planned = lab.plan("held", "pre_ln", 2, schedule=schedule)
    lab.finish(planned, Verdict(Status.HEALTHY, last_good_step=300), curve=curve_like(planned.trial, 300))
    lab.save("held")
    found = told(lab, FakeReplay(lab), "pre_ln-b2-s0")
    assert tuple(found.window) == (51, 300)
    text = evidence.text(found)
    assert "cosine schedule, LR 0.001, 300 steps" in text
    assert "Max LR" not in text
    assert "before the" not in text.split("Moved:")[0]
    assert len(store_figures(found, lab.root)) == 2


def test_an_early_onset_leaves_too_little_to_compare_with(lab, curve_like):
    planned = lab.plan("early", "keel", 2)
    lab.finish(planned, lab.diverged(planned, 12), curve=curve_like(planned.trial, 301, onset=12))
    lab.save("early")
    text = evidence.text(told(lab, FakeReplay(lab, at=1)))
    assert "Only 11 steps before the onset make the baseline, 20 are needed: nothing can be said." in text


def test_the_json_is_strict_and_complete(lab, collapsed):
    def strict(constant):
        raise AssertionError(constant)

    found = json.loads(told(lab, FakeReplay(lab)).to_json(), parse_constant=strict)
    assert found["verdict"]["mode"] == "collapse"
    assert found["window"] == [30, 280]
    assert found["replay"]["exact"] is True
    assert [(one["measure"], one["place"], one["step"]) for one in found["moved"]] == [
        ("attention_logit", "block 1 attention", 200)
    ]


def test_a_trial_that_is_not_done_says_what_became_of_it(lab):
    lab.fail(lab.plan("odd", "keel", 2))
    lab.plan("odd", "pre_ln", 2)
    lab.save("odd")
    with pytest.raises(UsageError, match=r"keel-b2-s0 is not done: it failed \(oom: out of memory\).*resume odd"):
        told(lab, FakeReplay(lab))
    with pytest.raises(UsageError, match=r"pre_ln-b2-s0 is not done: it has not run to its end; .*resume odd"):
        told(lab, FakeReplay(lab), "pre_ln-b2-s0")


def test_sweeps_that_disagree_must_be_named(lab, collapsed):
    other = Thresholds(alarm_sigma=1e9)
    lab.planned["lax"] = [collapsed]
    lab.save("lax", other)
    lab.sweeps.put_judgements("lax", other, {collapsed.trial.id: Verdict(Status.HEALTHY, last_good_step=301)})
    with pytest.raises(UsageError, match="diverged in demo, healthy in lax; name one with --sweep"):
        told(lab, FakeReplay(lab))
    assert told(lab, FakeReplay(lab), sweep="lax").verdict.status is Status.HEALTHY
    assert told(lab, FakeReplay(lab), sweep="demo").verdict.status is Status.DIVERGED


def test_the_picture_is_the_same_each_time_and_shows_what_the_detector_said(lab, collapsed):
    found = told(lab, FakeReplay(lab))
    first = [path.read_bytes() for path in store_figures(found, lab.root)]
    paths = store_figures(found, lab.root)
    assert [path.name for path in paths] == ["explain.png", "explain.svg"]
    assert [path.read_bytes() for path in paths] == first
    comments = " ".join(paths[1].read_text().split("<!--"))
    ElementTree.fromstring(first[1])
    for words in ("onset, step 230", "alarm, step 250", "confirmed at step 301", "paired loss", "unigram level H1"):
        assert words in comments


def test_a_second_look_from_the_command_line_needs_no_torch(lab, collapsed):
    told(lab, FakeReplay(lab))
    code = (
        "import sys\nfrom keel_lab.cli import main\n"
        f"sys.argv = ['keel-lab', 'explain', {collapsed.trial.id[:7]!r}, '--storage', {lab.root.uri!r}]\n"
        "try:\n    main()\nexcept SystemExit as end:\n    print('CODE', end.code)\n"
        "print('HEAVY', *sorted({'torch', 'lightning', 'ray', 'mlflow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-2:] == ["CODE 0", "HEAVY"]
    assert "attention-logit max" in done.stdout
    assert done.stderr.count("figure: ") == 2
