from pathlib import Path
from typing import Any

import pytest

from tests.trainers.job_cases import Fit, MemoryReport, trial
from trainers import job
from trainers.data import corpus


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenised shard of about 16,000 bytes of text with something to learn."""
    folder = tmp_path_factory.mktemp("corpus")
    text = "".join(f"{n} bottles of beer on the wall, {n} bottles of beer.\n" for n in range(300))
    (folder / "a.txt").write_text(text)
    section = {"text": "*.txt", "tokenizer": "bytes"}
    corpus.prepare(section, folder, corpus.facts(section, folder), folder / "shard")
    return folder / "shard"


@pytest.fixture
def fit(data: Path, tmp_path: Path) -> Fit:
    """Trains to step `last`, stopped and resumed after each of `stops`, with checkpoints also after each of `due`."""

    def start(last: int, stops: tuple[int, ...] = (), due: tuple[int, ...] = (), **changes: Any) -> MemoryReport:
        folder = tmp_path / f"run{len(list(tmp_path.iterdir()))}"  # a second run must not replace the first one's files
        folder.mkdir()
        report = MemoryReport(data, folder, last, due=due)
        for stop in (*stops, None):
            report.stop = stop
            job.run(trial(data, **changes), folder, report)
        return report

    return start
