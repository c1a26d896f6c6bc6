"""Several workers train what one does: two processes over gloo, against one, on the same global batch."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from keel_lab.curve import Step
from keel_lab.errors import UsageError
from keel_lab.schedule.reporting import Resume
from keel_lab.settings import Resources, TrainSettings
from tests.trainers.job_cases import MemoryReport, trial
from tests.trainers.together import CASES, FROM_ONE, LAST, STOP, STOPPED, case, listening
from trainers import job

PATIENCE = 300.0  # seconds; only ever waited for when something is broken


@pytest.fixture(scope="module")
def together(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both processes went through all cases; what rank 0 heard is under the case's name."""
    folder = tmp_path_factory.mktemp("together")
    one = MemoryReport(data, folder, LAST, stop=STOP)
    job.run(case(data, FROM_ONE, alone=True), folder, one)
    assert one.resume is not None
    one.resume.checkpoint.rename(folder / "one.ckpt")
    (folder / "one.parquet").write_bytes(one.curve.to_parquet())
    with listening() as store:
        words = [sys.executable, "-m", "tests.trainers.together", str(data), str(folder)]
        port = str(store.getsockname()[1])
        pair = [
            subprocess.Popen(
                [*words, str(rank), port, str(store.fileno())],
                pass_fds=[store.fileno()], cwd=Path(__file__).parents[2], stderr=subprocess.PIPE, text=True,
            )
            for rank in (0, 1)
        ]  # fmt: skip
        said = [process.communicate(timeout=PATIENCE)[1] for process in pair]
    assert [process.returncode for process in pair] == [0, 0], "\n".join(said)
    return folder


def heard(together: Path, name: str) -> tuple[list[Step], dict[str, float], dict[str, Any]]:
    said = json.loads((together / name.replace(" ", "_") / "said.json").read_text())
    return [Step(*step) for step in said["steps"]], said["metrics"], said["execution"]


@pytest.mark.parametrize("name", CASES)
def test_two_workers_record_what_one_does(together: Path, data: Path, tmp_path: Path, name: str) -> None:
    alone = MemoryReport(data, tmp_path, LAST)
    job.run(case(data, name, alone=True), tmp_path, alone)
    steps, metrics, _ = heard(together, name)
    near = 0.02 if "bf16" in name else 1e-5
    assert [step.step for step in steps] == list(range(1, LAST + 1))
    for one, other in zip(alone.curve, steps, strict=True):
        assert other.loss == pytest.approx(one.loss, abs=near)
        assert other.unigram_loss == pytest.approx(one.unigram_loss, rel=1e-12)
        assert other.grad_norm == pytest.approx(one.grad_norm, rel=5 * near if "bf16" in name else 1e-3)
        assert (other.lr, other.tokens, other.skipped, other.weights_finite) == (one.lr, one.tokens, False, True)
    assert metrics["val_loss"] == pytest.approx(alone.metrics["val_loss"], abs=near)


@pytest.mark.parametrize("name", STOPPED)
def test_one_process_goes_on_where_two_have_stopped(together: Path, data: Path, tmp_path: Path, name: str) -> None:
    report = MemoryReport(data, tmp_path, LAST)
    steps, metrics, _ = heard(together, name)
    for step in steps[:STOP]:
        report.curve.append(step)
    report.resume = Resume(STOP, together / name / f"{STOP}.ckpt")
    job.run(case(data, name, alone=True), tmp_path, report)
    for one, other in zip(report.curve, steps, strict=True):
        assert one.loss == pytest.approx(other.loss, abs=1e-5)
    assert report.metrics["val_loss"] == pytest.approx(metrics["val_loss"], abs=1e-5)


def test_a_checkpoint_of_shards_is_one_file_with_every_whole_weight(together: Path, data: Path) -> None:
    names = (together / name / f"{LAST}.ckpt" for name in STOPPED)
    ddp, fsdp = (torch.load(name, weights_only=True)["state_dict"] for name in names)
    assert ddp.keys() == fsdp.keys()
    for name, weight in ddp.items():
        torch.testing.assert_close(fsdp[name], weight, rtol=1e-3, atol=1e-5)


def test_admins_omegas_are_those_of_the_whole_first_batch_on_every_rank(together: Path) -> None:
    """Even if they profiled other batches; and in "ddp admin" each profiles the whole one, as the losses show."""
    omegas = [torch.load(together / f"omegas{rank}.pt", weights_only=True) for rank in (0, 1)]
    assert len(omegas[0]) == 4
    for one, other in zip(*omegas, strict=True):
        assert torch.equal(one, other)
    assert not any(torch.equal(one, torch.ones_like(one)) for one in omegas[0][1:])  # the first one is 1


def test_how_it_was_run_is_recorded(together: Path) -> None:
    execution = heard(together, "fsdp")[2]
    assert (execution["workers"], execution["strategy"]) == (2, "fsdp")


def test_what_workers_cannot_share_is_refused(data: Path) -> None:
    def refused(train: TrainSettings, **resources: Any) -> str:
        with pytest.raises(UsageError) as error:
            job.preflight(trial(data, train=train, resources=Resources(**resources)))
        return str(error.value)

    said = refused(TrainSettings(batch_size=8, accumulate=2), workers=3)
    assert said.startswith("resources.workers: found 3; workers x accumulate (2) must divide train.batch_size (8)")
    assert "each needs a whole GPU, or none" in refused(TrainSettings(), workers=2, gpus=0.5)
    assert "muon, which needs whole matrices" in refused(TrainSettings(optimizer="muon"), workers=2, strategy="fsdp")
    assert "a worker has one GPU at most" in refused(TrainSettings(), gpus=2)


def test_a_process_without_its_group_says_so(data: Path, tmp_path: Path) -> None:
    report = MemoryReport(data, tmp_path, LAST)
    with pytest.raises(UsageError, match="asks for 2 processes, this one is alone; run it with Ray"):
        job.run(case(data, "ddp"), tmp_path, report)
    assert report.said == []
