import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from keel_lab.errors import KeelLabError, UsageError
from trainers.data import corpus
from trainers.data.shard import Shard, replacing

DATA = {"text": "*.txt", "tokenizer": "bytes"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_bytes(bytes(range(256)) * 40)
    corpus.prepare(DATA, tmp_path, corpus.facts(DATA, tmp_path), tmp_path / "shard")
    return tmp_path / "shard"


def test_tokens_are_memory_mapped_and_read_only(folder: Path) -> None:
    shard = Shard.open(folder)
    assert isinstance(shard.train, np.memmap)
    assert shard.train.dtype == np.uint8
    with pytest.raises(ValueError, match="read-only"):
        shard.train[0] = 1


def test_manifest_says_what_a_reader_needs(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    shard = Shard.open(folder)
    assert manifest["schema"] == 1
    assert manifest["split"] == {"block": 512, "every": 20}
    assert manifest["unigram_entropy"] == shard.unigram.entropy
    assert manifest["chance"] == shard.unigram.chance
    assert sum(manifest["unigram_counts"]) == manifest["train"]["tokens"] == len(shard.train)


def test_two_at_once_leave_one_whole_shard(folder: Path, tmp_path: Path) -> None:
    facts, out = corpus.facts(DATA, tmp_path), tmp_path / "shared"
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: corpus.prepare(DATA, tmp_path, facts, out), range(8)))
    Shard.open(out).verify()
    assert sorted(file.name for file in out.iterdir()) == ["heldout.bin", "manifest.json", "train.bin"]
    for file in out.iterdir():
        assert file.read_bytes() == (folder / file.name).read_bytes()


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    def write() -> None:
        with replacing(tmp_path / "x.bin") as stream:
            stream.write(b"half")
            raise OSError(28, "No space left on device")

    with pytest.raises(KeelLabError, match=r"x\.bin: cannot be written: .*No space left"):
        write()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "manifest.json").unlink(), "manifest.json cannot be read"),
        (lambda folder: (folder / "manifest.json").write_text('{"schema": 1'), "manifest.json cannot be read"),
        (lambda folder: (folder / "manifest.json").write_text("[]"), "manifest.json cannot be read"),
        (lambda folder: (folder / "manifest.json").write_text('{"schema": 1}'), "manifest.json lacks dtype"),
        (
            lambda folder: (folder / "manifest.json").write_text('{"schema": 2}'),
            "schema 2; this keel_lab reads up to 1",
        ),
        (lambda folder: (folder / "train.bin").write_bytes(b"x"), "train.bin has 1 bytes instead of"),
        (lambda folder: (folder / "heldout.bin").unlink(), "heldout.bin has None bytes instead of"),
    ],
)
def test_a_shard_that_is_not_whole_is_one_clear_error(folder: Path, damage: object, message: str) -> None:
    damage(folder)  # type: ignore[operator]
    with pytest.raises(UsageError) as error:
        Shard.open(folder)
    assert message in str(error.value)
    assert str(folder) in str(error.value)


def test_verify_finds_a_flipped_bit(folder: Path) -> None:
    shard = Shard.open(folder)
    shard.verify()
    content = bytearray((folder / "train.bin").read_bytes())
    content[100] ^= 1
    (folder / "train.bin").write_bytes(content)
    with pytest.raises(UsageError, match=r"train\.bin does not have the sha256"):
        Shard.open(folder).verify()
