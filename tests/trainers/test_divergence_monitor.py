"""The callback on trainings that are not ours: a plain Lightning module, its own loop, its own logger."""

import math

import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from trainers.divergence_monitor import DivergenceMonitor

SILENT = {
    "accelerator": "cpu",
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "enable_checkpointing": False,
    "max_epochs": 1,
}


class Regression(LightningModule):
    """A linear model whose learning rate jumps at a step: it diverges there, and nowhere if it never jumps."""

    def __init__(self, jump_at):
        super().__init__()
        self.layer = nn.Linear(4, 1)
        self.jump_at = jump_at

    def training_step(self, batch, index):
        inputs, targets = batch
        return nn.functional.mse_loss(self.layer(inputs), targets)

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.05)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 if step < self.jump_at else 100.0)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def batches():
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(400 * 8, 4, generator=generator)
    targets = inputs.sum(dim=1, keepdim=True) + 0.1 * torch.randn(400 * 8, 1, generator=generator)
    return DataLoader(TensorDataset(inputs, targets), batch_size=8)


def fit(jump_at, monitor, **options):
    torch.manual_seed(0)
    trainer = Trainer(**SILENT | {"logger": False} | options, callbacks=[monitor])
    trainer.fit(Regression(jump_at), batches())
    return trainer


def test_it_finds_the_step_of_a_divergence_and_stops_there():
    monitor = DivergenceMonitor()
    trainer = fit(150, monitor)
    assert monitor.verdict.status == "diverged"
    assert 145 <= monitor.verdict.last_good_step <= 152
    assert monitor.verdict.last_good_lr == pytest.approx(0.05) or monitor.verdict.last_good_step > 150
    assert trainer.global_step < 400


def test_it_lets_a_healthy_training_run_to_its_end():
    monitor = DivergenceMonitor()
    trainer = fit(10_000, monitor)
    assert trainer.global_step == 400
    assert monitor.verdict.status == "healthy"
    assert monitor.verdict.censored


def test_it_watches_without_stopping_if_asked_to():
    monitor = DivergenceMonitor(stop=False)
    assert fit(150, monitor).global_step == 400
    assert monitor.verdict.status == "diverged"


def test_accumulated_batches_are_one_step():
    monitor = DivergenceMonitor()
    trainer = fit(10_000, monitor, accumulate_grad_batches=4)
    assert trainer.global_step == 100
    assert monitor.verdict.evidence["samples"] == 100
    plain = DivergenceMonitor()
    fit(10_000, plain)
    levels = [watched.verdict.evidence["level"] for watched in (monitor, plain)]
    assert levels[0] == pytest.approx(levels[1], rel=0.5)  # the mean of the micro-batches, not a quarter of it


def test_a_step_without_a_loss_is_one_clear_error():
    class Lossless(Regression):
        def training_step(self, batch, index):
            return None

    with pytest.raises(ValueError, match="needs a loss"):
        Trainer(**SILENT, logger=False, callbacks=[DivergenceMonitor()]).fit(Lossless(10), batches())


def test_an_mlflow_run_is_tagged(tmp_path):
    from lightning.pytorch.loggers import MLFlowLogger
    from mlflow.tracking import MlflowClient

    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    logger = MLFlowLogger("mine", tracking_uri=uri, artifact_location=(tmp_path / "artifacts").as_uri())
    fit(150, DivergenceMonitor(), logger=logger)
    tags = MlflowClient(uri).get_run(logger.run_id).data.tags
    assert tags["divergence.verdict"] == "diverged"
    assert tags["divergence.state"] == "diverged"
    assert math.isfinite(float(tags["divergence.last_good_lr"]))


def test_the_example_of_the_docs_runs(tmp_path):
    """The ten lines of docs/monitor.md, as they stand there."""
    from pathlib import Path

    page = (Path(__file__).parents[2] / "docs" / "monitor.md").read_text()
    example = page.split("```python\n")[1].split("```")[0]
    names = {"MyModule": lambda: Regression(150), "my_batches": batches()}
    exec(compile(example, "docs/monitor.md", "exec"), names)  # our own text
    assert names["monitor"].verdict.status == "diverged"
