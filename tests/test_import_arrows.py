"""trainers -> keel_lab <- analysis, and what each command may import: checked on the source, in real interpreters."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = {"torch", "lightning", "pytorch_lightning", "pandas", "ray", "mlflow", "matplotlib", "scipy"}
FORBIDDEN = {
    "keel_lab": {"torch", "lightning", "pytorch_lightning", "pandas", "trainers", "analysis"},
    "trainers": {"analysis", "ray", "mlflow", "pandas"},
    "analysis": {"trainers", "torch", "lightning", "ray", "mlflow"},
}
COMPOSITION_ROOT = ROOT / "keel_lab" / "composition.py"


def imported(path):
    """Top-level names of all imports anywhere in a file, lazy ones included."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module.split(".")[0]


@pytest.mark.parametrize("package", sorted(FORBIDDEN))
def test_no_module_imports_against_the_arrows(package):
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    forbidden = FORBIDDEN[package]
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in files
        if path != COMPOSITION_ROOT
        for name in imported(path)
        if name in forbidden
    }
    assert not found


def test_only_the_composition_root_reaches_out():
    names = set(imported(COMPOSITION_ROOT))
    assert {"trainers", "analysis"} <= names
    assert not names & HEAVY


def modules_after(*arguments, cwd):
    """Top-level modules that a keel-lab command loaded, and its exit code."""
    code = (
        "import sys\nfrom keel_lab.cli import main\n"
        f"sys.argv = ['keel-lab', *{list(arguments)!r}]\n"
        "try:\n    main()\nexcept SystemExit as end:\n    code = end.code\n"
        "print('MODULES', code, *sorted({name.split('.')[0] for name in sys.modules}))"
    )
    output = subprocess.run([sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, check=True).stdout
    _, exit_code, *names = output.splitlines()[-1].split()
    return exit_code, set(names)


def test_help_imports_nothing_heavy(tmp_path):
    code, names = modules_after("--help", cwd=tmp_path)
    assert code == "0"
    assert not names & (HEAVY | {"pydantic", "pyarrow", "numpy", "ruamel", "rich"})


@pytest.mark.parametrize("words", [["--version"], ["init"], ["report"], ["rnu"]])
def test_small_commands_import_nothing_heavy(tmp_path, words):
    _, names = modules_after(*words, cwd=tmp_path)
    assert not names & (HEAVY | {"pydantic", "pyarrow", "numpy", "ruamel", "rich"})


@pytest.mark.parametrize("words", [["validate", str(ROOT / "sweeps" / "quickstart.yaml")], ["schema"], ["logs", "x"]])
def test_reading_commands_import_no_torch_ray_mlflow_or_pandas(tmp_path, words):
    code, names = modules_after(*words, cwd=tmp_path)
    assert code == ("2" if words[0] == "logs" else "0")
    assert not names & HEAVY


def test_plan_imports_no_torch_ray_mlflow_or_pandas(tmp_path):
    code, names = modules_after("plan", str(ROOT / "sweeps" / "quickstart.yaml"), cwd=tmp_path)
    assert code == "0"
    assert not names & HEAVY
    assert not list(tmp_path.iterdir())  # planning creates nothing


def test_plan_and_status_of_a_filled_store_import_no_pandas(tmp_path, monkeypatch):
    """Reading the index must not bring in what an empty store does not."""
    monkeypatch.setenv("KEEL_LAB_STORAGE", str(tmp_path / "store"))
    small = ["model.width=8", "model.heads=2", "model.kv_heads=1", "model.ffn_width=8", "ramp.steps=12"]
    sweep = [str(ROOT / "sweeps" / "quickstart.yaml"), "name=small", "grid.depth.blocks=[1]", *small]
    run = ["run", *sweep, "grid.architecture=[pre_ln]", "--executor", "local", "--tracking", "off"]
    subprocess.run([sys.executable, "-m", "keel_lab", *run], cwd=tmp_path, check=True, capture_output=True)
    for command in (["status", "small"], ["plan", *sweep]):
        code, names = modules_after(*command, cwd=tmp_path)
        assert code == "0"
        assert not names & HEAVY


def test_status_imports_no_torch_ray_mlflow_or_pandas(tmp_path):
    code, names = modules_after("status", "nothing-here", cwd=tmp_path)
    assert code == "2"
    assert not names & HEAVY
