import math
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from keel_lab.errors import UsageError
from trainers.data import corpus
from trainers.data.shard import Shard
from trainers.data.split import Split

TEXT = {"text": "**/*.txt", "tokenizer": "bytes"}
STDLIB = {"corpus": "stdlib", "tokenizer": "bytes"}


@pytest.fixture
def books(tmp_path: Path) -> Path:
    folder = tmp_path / "books"
    (folder / "b").mkdir(parents=True)
    (folder / "a.txt").write_bytes(b"the quick brown fox\n" * 200)
    (folder / "b" / "z.txt").write_bytes("übergröße\n".encode() * 200)
    (folder / "b" / "notes.md").write_bytes(b"not part of it" * 1000)
    return folder


def prepared(data: dict[str, str], folder: Path, destination: Path) -> Shard:
    corpus.prepare(data, folder, corpus.facts(data, folder), destination)
    return Shard.open(destination)


def test_tokens_are_the_files_in_order_of_their_names_each_ended_by_nul(books: Path, tmp_path: Path) -> None:
    shard = prepared(TEXT, books, tmp_path / "out")
    whole = (books / "a.txt").read_bytes() + b"\0" + (books / "b" / "z.txt").read_bytes() + b"\0"
    block = len(whole) // 20
    blocks = [whole[start : start + block] for start in range(0, len(whole), block)]
    held_out = [index for index in range(len(blocks)) if index % 20 == 19]
    assert bytes(shard.heldout) == b"".join(blocks[index] for index in held_out)
    assert bytes(shard.train) == b"".join(blocks[index] for index in range(len(blocks)) if index not in held_out)
    assert len(shard.heldout) > 0


def test_facts_agree_with_what_prepare_writes(books: Path, tmp_path: Path) -> None:
    facts = corpus.facts(TEXT, books)
    shard = prepared(TEXT, books, tmp_path / "out")
    assert (facts.fingerprint, facts.tokens, facts.vocab) == (shard.fingerprint, len(shard.train), shard.vocab)
    assert (facts.tokenizer, facts.source) == ("bytes", "**/*.txt")
    shard.verify()


def test_every_changed_byte_changes_the_fingerprint_and_moving_or_renaming_does_not(books: Path) -> None:
    before = corpus.facts(TEXT, books).fingerprint
    moved = books.rename(books.with_name("moved"))
    (moved / "a.txt").rename(moved / "aa.txt")
    assert corpus.facts({"text": f"{moved}/**/*.txt"}, Path("elsewhere")).fingerprint == before
    for position in (0, 1999, 3999):
        content = bytearray((moved / "aa.txt").read_bytes())
        content[position] ^= 1
        changed = moved.with_name(f"changed{position}")
        changed.mkdir()
        (changed / "a.txt").write_bytes(content)
        (changed / "b.txt").write_bytes((moved / "b" / "z.txt").read_bytes())
        assert corpus.facts(TEXT, changed).fingerprint != before


def test_where_a_document_ends_is_part_of_the_corpus(tmp_path: Path) -> None:
    fingerprints = set()
    for cut in (1000, 3000):
        folder = tmp_path / str(cut)
        folder.mkdir()
        (folder / "a.txt").write_bytes(b"x" * cut)
        (folder / "b.txt").write_bytes(b"x" * (5000 - cut))
        fingerprints.add(corpus.facts(TEXT, folder).fingerprint)
    assert len(fingerprints) == 2


def test_unigram_table_by_hand(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"aaab" * 2000)
    shard = prepared(TEXT, tmp_path, tmp_path / "out")
    counts = Counter(bytes(shard.train))
    total = len(shard.train)
    entropy = -sum(n / total * math.log(n / total) for n in counts.values())
    assert 0 <= shard.unigram.entropy - entropy < 1 / total
    assert shard.unigram.entropy == pytest.approx(0.5623, abs=2e-3)  # of a coin with 3/4
    assert shard.unigram.chance == math.log(256)
    assert np.exp(-shard.unigram.nats).sum() == pytest.approx(1.0, rel=1e-12)
    assert shard.unigram.loss(shard.train) == pytest.approx(shard.unigram.entropy, rel=1e-12)
    assert shard.unigram.nats[ord("z")] == pytest.approx(math.log((total + 1) * 256))  # never seen, yet finite


def test_split_holds_out_every_twentieth_block_however_the_text_is_cut() -> None:
    split = Split.of(100_000)
    assert split.block == 5_000
    assert Split.of(10**9).block == 65_536
    for size in (1, 7, 4_999, 5_000, 100_000):
        held_out = [
            position + offset
            for position in range(0, 100_000, size)
            for out, first, last in split.pieces(position, min(size, 100_000 - position))
            if out
            for offset in range(first, last)
        ]
        assert held_out == list(range(95_000, 100_000))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"corpus": "wikipedia"}, "data.corpus: found 'wikipedia'; allowed: stdlib"),
        ({"corpus": "stdlib", "text": "*"}, "exactly one of"),
        ({}, "exactly one of"),
        ({"text": "*.txt", "tokenizer": "bpe"}, "data.tokenizer: found 'bpe'; allowed: bytes"),
        ({"text": "*.none"}, "{folder}/*.none: data.text matches no file"),
        ({"text": "b"}, "{folder}/b: data.text matches no file"),  # a folder is no file
        ({"text": "short.txt"}, "{folder}/short.txt: only 6 tokens in 1 file; at least 4096"),
        ({"text": "empty.txt"}, "{folder}/empty.txt: only 1 tokens"),
    ],
)
def test_what_is_no_corpus_is_refused_with_place_and_remedy(books: Path, data: dict[str, str], message: str) -> None:
    (books / "short.txt").write_bytes(b"short")
    (books / "empty.txt").touch()
    with pytest.raises(UsageError) as error:
        corpus.facts(data, books)
    assert message.format(folder=books) in str(error.value)


def test_an_unreadable_file_is_named(books: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(file: Path) -> bytes:  # root may read everything, so permissions would not do
        raise PermissionError(13, "Permission denied", str(file))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(UsageError, match=r"books/a\.txt: cannot be read: Permission denied"):
        corpus.facts(TEXT, books)


def test_prepare_refuses_a_corpus_that_changed_after_planning(books: Path, tmp_path: Path) -> None:
    facts = corpus.facts(TEXT, books)
    (books / "a.txt").write_bytes(b"something else\n" * 400)
    with pytest.raises(UsageError, match="changed while the sweep was being planned"):
        corpus.prepare(TEXT, books, facts, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_prepare_leaves_a_whole_shard_alone_and_refuses_anothers_folder(books: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    prepared(TEXT, books, out)
    before = {file.name: file.stat().st_mtime_ns for file in out.iterdir()}
    prepared(TEXT, books, out)
    assert {file.name: file.stat().st_mtime_ns for file in out.iterdir()} == before
    other = {"text": "a.txt", "tokenizer": "bytes"}
    (books / "a.txt").write_bytes(b"x" * 5000)
    with pytest.raises(UsageError, match="holds another corpus"):
        corpus.prepare(other, books, corpus.facts(other, books), out)


def test_standard_library_is_the_running_pythons_without_tests_and_third_parties() -> None:
    first, again = corpus.facts(STDLIB, Path("/nowhere")), corpus.facts(STDLIB, Path())
    assert first == again
    assert first.tokens > 5_000_000
    assert (first.source, first.vocab) == ("stdlib", 256)
    files = corpus._find(STDLIB, Path()).files
    root = Path(os.__file__).parent
    names = [file.relative_to(root).as_posix() for file in files]
    assert names == sorted(names)
    assert {"os.py", "json/decoder.py", "asyncio/tasks.py"} <= set(names)
    assert not [name for name in names if {"test", "tests", "idle_test", "site-packages"} & set(name.split("/"))]


def test_the_planner_gets_its_facts_without_torch() -> None:
    code = (
        "import sys; from pathlib import Path; from trainers.data.corpus import facts, prepare; import trainers.job;"
        "facts({'corpus': 'stdlib'}, Path()); "
        "print(sorted({'torch', 'lightning', 'pandas', 'pyarrow', 'ray', 'mlflow'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path.cwd())
    assert found.stdout.strip() == "[]"


def test_a_file_counts_once_however_many_ways_lead_to_it(books: Path) -> None:
    once = corpus.facts({"text": "**/*.txt", "tokenizer": "bytes"}, books)
    (books / "loop").symlink_to(books, target_is_directory=True)
    (books / "again.txt").symlink_to(next(books.glob("*.txt")))
    many = corpus.facts({"text": "**/**/*.txt", "tokenizer": "bytes"}, books)
    assert (many.fingerprint, many.tokens) == (once.fingerprint, once.tokens)
