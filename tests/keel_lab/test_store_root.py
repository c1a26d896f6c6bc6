"""Where a storage root is, and what is said when it cannot be one."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from keel_lab.errors import KeelLabError, UsageError
from keel_lab.store.folder import Folder
from keel_lab.store.root import ENVIRONMENT, Root, StorageError, resolve_root


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(ENVIRONMENT, raising=False)


def test_option_then_environment_then_default(tmp_path, monkeypatch):
    assert resolve_root(None).uri == str(tmp_path / "keel-lab-store")
    monkeypatch.setenv(ENVIRONMENT, "from-env")
    assert resolve_root(None).uri == str(tmp_path / "from-env")
    assert resolve_root("x/../opt").uri == str(tmp_path / "opt")
    monkeypatch.setenv(ENVIRONMENT, "")
    assert resolve_root(None).uri == str(tmp_path / "keel-lab-store")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UsageError, match="'' is no place"):
        resolve_root("")


@pytest.mark.parametrize("name", ["plain", "with space", "100%", "a#b?c", "ü"])
def test_a_uri_opens_the_same_root_from_elsewhere(tmp_path, monkeypatch, name):
    root = Root.open(name)
    root.write("a", b"1")
    monkeypatch.chdir("/")
    assert Root.open(root.uri).read("a") == b"1"
    assert Root.open((tmp_path / name).as_uri()).read("a") == b"1"
    assert Root.open(tmp_path / name).uri == root.uri


def test_the_home_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Root.open("~/store").uri == str(tmp_path / "store")


def test_a_file_is_no_root(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match=rf"{tmp_path}/file is a file; name a folder"):
        Root.open("file")
    with pytest.raises(UsageError, match=rf"{tmp_path}/file/sub lies inside the file {tmp_path}/file"):
        Root.open("file/sub")


@pytest.mark.parametrize("uri", ["memory://x", "s4://bucket/x", "s3:///", "file://host/x"])
def test_a_uri_that_is_none_is_refused_by_name(uri):
    with pytest.raises(UsageError, match=f"storage {uri}"):
        Root.open(uri)


def test_an_unreachable_store_is_named_without_its_credentials():
    uri = "gs://anonymous@bucket/x?endpoint_override=127.0.0.1:9&scheme=http&retry_limit_seconds=1"
    with pytest.raises(UsageError, match=r"storage gs://\*\*\*@bucket/x.* cannot be opened: .*; name a folder, s3://"):
        Root.open(uri)


def test_credentials_are_handed_on_but_never_shown():
    root = Root(Folder(Path("unused")), "s3://KEY:SECRET@bucket/x")
    assert root.uri == "s3://KEY:SECRET@bucket/x"
    assert f"{root} {root!r}" == "s3://***@bucket/x Root('s3://***@bucket/x')"


@pytest.mark.parametrize(
    ("number", "remedy"),
    [(errno.ENOSPC, "free some space"), (errno.EACCES, "name another place with --storage"), (errno.EIO, "reached")],
)
def test_a_failed_write_names_root_path_and_remedy_and_leaves_the_old_bytes(tmp_path, monkeypatch, number, remedy):
    root = Root.open("store")
    root.write("a/b", b"old")

    def fail(handle):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StorageError, match=rf"storage {root}: cannot write a/b: .*{remedy}") as caught:
        root.write("a/b", b"new")
    assert isinstance(caught.value, KeelLabError)
    assert root.read("a/b") == b"old"
    assert [entry.name for entry in (tmp_path / "store" / "a").iterdir()] == ["b"]


def test_a_folder_that_cannot_be_made(tmp_path):
    root = Root.open("store")
    (tmp_path / "store").write_text("a file came in between")
    with pytest.raises(StorageError, match=rf"storage {root}: cannot write a/b"):
        root.write("a/b", b"")


def test_what_a_killed_writer_left_is_not_listed(tmp_path):
    root = Root.open("store")
    root.write("a/b", b"1")
    (tmp_path / "store" / "a" / ".c.123-abcd.tmp").write_bytes(b"half")
    assert root.list("a") == ["b"]


def test_nothing_heavy_is_imported_by_local_storage():
    code = (
        "import sys; from keel_lab.store import lease, sweeps, trials; from keel_lab.store.root import Root;"
        "sweeps.Sweeps(Root.open('store')).names();"
        "print({'pyarrow', 'numpy', 'pandas', 'torch'} & set(sys.modules))"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == "set()"


def test_a_write_that_is_not_synced_is_whole_at_once_and_one_that_replaces_is_synced_all_the_same(monkeypatch):
    root, synced = Root.open("store"), []
    monkeypatch.setattr(os, "fsync", synced.append)
    root.write("a/new", b"1", synced=False)
    assert (root.read("a/new"), synced) == (b"1", [])
    root.write("a/new", b"2", synced=False)
    assert root.read("a/new") == b"2"
    root.write("a/other", b"3")
    assert len(synced) == 2
