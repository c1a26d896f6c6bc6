"""A search by the toy trainer `tests.bowl_trainer`, and a storage to run it in, in this process."""

from __future__ import annotations

from pathlib import Path

from keel_lab import composition
from keel_lab.plan.opening import OpenedSweep
from keel_lab.schedule.finishing import Reporting
from keel_lab.schedule.launch import LaunchOptions, launch
from keel_lab.store.points import Point, PointFiles
from keel_lab.store.root import Root

SEARCH = """\
schema: 1
name: bowl
protocol: search
trainer: tests.bowl_trainer
grid: {architecture: [bowl], depth: {blocks: [4]}}
search:
  space:
    lr: {log_uniform: [1e-3, 1e-1]}
    alpha: {power_of_L: [0, 2]}
  objectives: val_loss
  points: 12
  remeasure: {best: 2, seeds: 2}
schedule: {shape: constant, steps: 60, warmup_steps: 5}
ramp: {shape: log, from_lr: 1e-3, peak_lr: 1.0, steps: 120}
"""
PRUNED = """\
schema: 1
name: bowl
protocol: search
trainer: tests.bowl_trainer
grid: {architecture: [plain, late], depth: {blocks: [4]}}
search:
  space: {lr: {log_uniform: [2e-3, 4e-2]}}
  objectives: val_loss
  per: all
  points: 24
  pruner: {name: median, n_startup_trials: 4}
  remeasure: {best: 1, seeds: 2}
schedule: {shape: constant, steps: 60, warmup_steps: 5}
"""


class Bench:
    """A sweep file and a storage; runs it in this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, *overrides: str, text: str = SEARCH) -> OpenedSweep:
        file = self.folder / "bowl.yaml"
        file.write_text(text)
        return composition.open_sweep(file, list(overrides), lambda: self.root)

    @property
    def root(self) -> Root:
        return Root.open(self.folder / "store")

    def run(self, *overrides: str, text: str = SEARCH, tracking: str = "off"):
        return self.launch(self.open(*overrides, text=text), tracking)

    def resume(self, name: str = "bowl"):
        return self.launch(composition.reopen_sweep(name, self.root))

    def launch(self, opened: OpenedSweep, tracking: str = "off"):
        options, reporting = LaunchOptions("local", None, tracking), Reporting(lambda: "", lambda: "", lambda: ())
        if tracking != "off":
            reporting = composition.reporting([opened.spec.name], self.root, "text")
        return launch(opened, self.root, composition.catalogue(), reporting, options, lambda text: None)

    def points(self, name: str = "bowl", *, fresh: bool = False) -> list[Point]:
        return [point for point in PointFiles(self.root, name).all() if point.fresh == fresh]


def asked(points: list[Point]) -> list[tuple[object, ...]]:
    return [(point.number, dict(point.drawn), point.state, point.told, dict(point.rungs)) for point in points]
