"""The wheel ships exactly the three packages and the sweeps, and works outside the checkout."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, timeout=300)
    return zipfile.ZipFile(next(folder.glob("keel_lab-*.whl")))


def test_it_holds_the_packages_and_sweeps_and_nothing_else(wheel):
    names = wheel.namelist()
    tops = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert tops == {"keel_lab", "trainers", "analysis", "sweeps"}
    assert {name for name in names if name.startswith("sweeps/")} == {
        f"sweeps/{path.name}" for path in (ROOT / "sweeps").glob("*.yaml")
    }
    assert {"analysis/paper/table1_max_lr.csv", "keel_lab/starter.yaml"} <= set(names)
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    assert not [name for name in names if name.endswith((".pyc", ".ckpt", ".bin"))]


def test_a_shipped_sweep_plans_outside_the_checkout(wheel, tmp_path):
    site = tmp_path / "site"
    wheel.extractall(site)
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("KEEL_LAB", "PYTHONPATH"))}
    code = "import keel_lab, sys; print(keel_lab.__file__); from keel_lab.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[0] = {str(site)!r}; {code}", "plan", "sweeps/quickstart.yaml"],
        cwd=tmp_path,
        env=clean,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(str(site))
    assert "215,008" in done.stdout
