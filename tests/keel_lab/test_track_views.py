"""Descriptions, views, datasets and tags of non-finite values, as text that MLflow takes."""

import base64
import json
import math
import zlib
from dataclasses import replace
from types import SimpleNamespace

import pytest

from keel_lab.architecture import CorpusFacts
from keel_lab.curve import Curve, Step
from keel_lab.track import nonfinite, note, views
from keel_lab.track.dataset import dataset_of
from keel_lab.trial import DataRef
from tests.toy_sweep import planned, toy_trial

LIMIT = 5000  # of an experiment's tag


def states():
    for key, value in views.view_tags().items():
        assert len(value) < LIMIT
        envelope = json.loads(value)
        packed = envelope["state"].removeprefix("deflate;")
        yield key.removeprefix(views.TAG), envelope["name"], json.loads(zlib.decompress(base64.b64decode(packed)))


def test_each_view_has_a_name_trials_only_and_charts_in_sections_that_exist():
    found = {key: (name, state) for key, name, state in states()}
    assert {key: name for key, (name, _) in found.items()} == views.NAMES
    for _, state in found.values():
        assert state["searchFilter"] == 'tags.kind = "trial"'
        sections = {section["uuid"] for section in state["compareRunSections"]}
        assert {chart["metricSectionId"] for chart in state["compareRunCharts"]} <= sections
        keys = [chart["uuid"] for chart in state["compareRunCharts"]]
        assert len(keys) == len(set(keys))
    assert found[views.MEANS][1]["groupBy"]["groupByKeys"] == [{"mode": "param", "groupByData": "architecture"}]


def test_views_are_the_same_text_each_time():
    assert views.view_tags() == views.view_tags()


@pytest.mark.parametrize("limit", [note.NOTE_LIMIT])
def test_a_long_report_is_cut_at_a_line(limit):
    whole = "\n".join(f"| row {number} |" for number in range(1000))
    shown = note.summary_note(whole)
    assert len(shown) <= limit
    assert shown.endswith("|\n\n... the rest: report.md under Artifacts")
    assert note.summary_note("short") == "short"


def test_the_note_has_question_links_place_and_file():
    text = note.experiment_note("Why?", "seed: 0", {"Curves": "#/a", "Summary": "#/b"}, "s3://bucket/store")
    assert text.startswith("**Why?**\n\n[Curves](#/a) · [Summary](#/b)\n\n")
    assert "`s3://bucket/store`" in text
    assert text.endswith("```yaml\nseed: 0\n```\n")


@pytest.mark.parametrize("length", [4999, 5001, 20_000])
def test_a_long_question_is_cut_and_says_where_the_rest_is(length):
    question = ("Why does it diverge? " * 1000)[:length]
    links = {"Curves": "#/a", "Summary": "#/b"}
    text = note.experiment_note(question, "seed: 0\n" * 1000, links, "s3://bucket/store")
    assert len(text) <= note.NOTE_LIMIT
    assert " ...**\n\nThe whole question is in `sweep.yaml`, an artifact of the run `summary`." in text
    assert "[Curves](#/a) · [Summary](#/b)" in text
    assert text.endswith("# ... the rest: sweep.yaml\n```\n")


def curve(*losses, norms=None):
    found = Curve()
    for number, loss in enumerate(losses, 1):
        found.append(Step(number, loss, 0.1, grad_norm=math.nan if norms is None else norms[number - 1]))
    return found


def test_what_was_not_finite_can_be_read_back_from_the_tag():
    losses = [5.0, math.inf, math.nan, math.nan, 4.0, -math.inf]
    tags = nonfinite.nonfinite_tags(curve(*losses), {"val_loss": math.inf, "ok": 1.0})
    assert tags == {"nonfinite.loss": "2: inf, 3-4: nan, 6: -inf", "nonfinite.val_loss": "inf"}
    back = nonfinite.steps(tags["nonfinite.loss"])
    wanted = {step: loss for step, loss in enumerate(losses, 1) if not math.isfinite(loss)}
    assert {step: str(value) for step, value in back.items()} == {step: str(value) for step, value in wanted.items()}


def test_a_gradient_norm_that_is_not_known_is_no_finding_and_an_infinite_one_is():
    assert nonfinite.nonfinite_tags(curve(1.0, 2.0), {}) == {}
    tags = nonfinite.nonfinite_tags(curve(1.0, 2.0, norms=[1.0, math.inf]), {})
    assert tags == {"nonfinite.grad_norm": "2: inf"}


def test_many_spans_are_cut_and_refuse_to_be_read_back():
    text = nonfinite.spans((step, math.nan) for step in range(1, 1000, 2))
    assert text.endswith(", and 400 more spans, see curve.parquet")
    assert len(text) < LIMIT
    with pytest.raises(ValueError, match="and 400 more"):
        nonfinite.steps(text)


FINGERPRINT = "ab" * 32


def test_a_dataset_has_the_digest_of_the_tokens():
    ref = DataRef(fingerprint=FINGERPRINT, tokenizer="bytes", vocab=256)
    one = planned(toy_trial().model_copy(update={"data": ref}))
    corpus = CorpusFacts(FINGERPRINT, 1000, 256, "bytes", "stdlib")
    (found,) = dataset_of(one, corpus, "/store")
    assert (found.dataset.name, found.dataset.digest) == ("stdlib", FINGERPRINT[:36])
    assert json.loads(found.dataset.source)["uri"] == f"/store/data/{FINGERPRINT}"
    assert json.loads(found.dataset.profile)["tokens"] == 1000
    assert [(tag.key, tag.value) for tag in found.tags] == [("mlflow.data.context", "training")]
    assert found.dataset.source_type == "local"
    (other,) = dataset_of(one, replace(corpus, fingerprint="cd" * 32), "/store")  # of another revision of the sweep
    assert other.dataset.name == FINGERPRINT[:12]


@pytest.mark.parametrize(
    ("root", "kind", "place"),
    [
        ("file:///my/store", "local", "file:///my/store"),
        ("s3://bucket/store/?endpoint_override=host:1&scheme=http", "s3", "s3://bucket/store"),
        ("s3://KEY:SECRET@bucket/store", "s3", "s3://bucket/store"),
        ("gs://bucket/store", "gs", "gs://bucket/store"),
    ],
)
def test_a_dataset_says_in_what_kind_of_place_it_lies(root, kind, place):
    ref = DataRef(fingerprint=FINGERPRINT, tokenizer="bytes", vocab=256)
    (found,) = dataset_of(planned(toy_trial().model_copy(update={"data": ref})), None, root)
    assert found.dataset.source_type == kind
    assert json.loads(found.dataset.source)["uri"] == f"{place}/data/{FINGERPRINT}"


def test_a_trainer_that_brings_its_own_data_has_no_dataset():
    assert dataset_of(planned(toy_trial()), None, "/store") == []
    assert dataset_of(SimpleNamespace(trial=SimpleNamespace(data=None)), None, "/store") == []
