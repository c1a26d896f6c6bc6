"""What reaches the workers of a Ray that is joined."""

from __future__ import annotations

from pathlib import Path

import pytest

import keel_lab
import trainers
from keel_lab.errors import UsageError
from keel_lab.schedule.shipping import own_code, runtime_env
from tests.toy_sweep import toy_trial

OURS = [Path(keel_lab.__file__).parent, Path(trainers.__file__).parent]


def test_the_drivers_own_packages_and_those_that_trials_name(tmp_path, monkeypatch):
    (tmp_path / "my_arch.py").write_text("raise AssertionError('found, never imported')")
    (tmp_path / "my_job").mkdir()
    (tmp_path / "my_job" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    trial = toy_trial("my_arch:Mine").model_copy(update={"trainer": "my_job.train"})
    plain = toy_trial().model_copy(update={"trainer": "trainers.job"})
    assert own_code([plain, plain]) == OURS
    assert own_code([plain, trial]) == [*OURS, tmp_path / "my_job", tmp_path / "my_arch.py"]
    assert runtime_env(None, [plain]) == {"py_modules": [str(place) for place in OURS]}


def test_a_file_says_it_in_rays_words(tmp_path):
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "mine.whl").touch()
    file = tmp_path / "env.yaml"
    file.write_text("py_modules: [dist/mine.whl, s3://bucket/more.zip]\nenv_vars: {A: '1'}\npip: [lion-pytorch]\n")
    assert runtime_env(str(file), []) == {
        "py_modules": [str(tmp_path / "dist" / "mine.whl"), "s3://bucket/more.zip"],
        "env_vars": {"A": "1"},
        "pip": ["lion-pytorch"],
    }


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read: No such file"),
        ("a: [", "is no YAML"),
        ("- a", r"found \['a'\]; give a YAML file with the keys of a Ray runtime environment"),
        ("py_modules: [dist/none.whl]", "dist/none.whl, which does not exist; correct or build it"),
    ],
)
def test_a_file_that_is_none(tmp_path, content, said):
    file = tmp_path / "env.yaml"
    if content is not None:
        file.write_text(content)
    with pytest.raises(UsageError, match=said):
        runtime_env(str(file), [])
