"""What the planner is told of the architectures is what they are, and a user's own counts like one that ships."""

import itertools
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from keel_lab.architecture import Declaration
from keel_lab.errors import UsageError
from keel_lab.settings import ModelSettings
from keel_lab.spec.rule import resolve
from tests.trainers.schemes import options
from trainers import architectures
from trainers.catalogue import CATALOGUE
from trainers.model import Transformer
from trainers.norm import RMSNorm
from trainers.residual import Affine, Architecture, ResidualStack

SHAPE = ModelSettings(width=24, heads=4, kv_heads=2, ffn_width=40, context=8)


def variants(name, sublayers):
    """All combinations of an architecture's flags with the default, the least and the largest of its numbers."""
    axes = {}
    for key, option in architectures.find(name).DECLARATION.options.items():
        if option.kind == "flag":
            axes[key] = [False, True]
        elif option.kind == "choice":
            axes[key] = list(option.choices)
        else:
            bounds = [
                b for b in (option.low, option.high) if b is not None and not (option.open_low and b == option.low)
            ]
            axes[key] = [resolve(option.default, sublayers), *bounds]
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


@pytest.mark.parametrize("blocks", [1, 3, 8])
@pytest.mark.parametrize("name", architectures.names())
def test_parameter_arithmetic_is_the_real_model(name, blocks):
    for chosen in variants(name, 2 * blocks):
        with torch.device("meta"):
            model = Transformer(SHAPE, blocks, 77, architectures.find(name).build(blocks, chosen))
        total = sum(parameter.numel() for parameter in model.parameters())
        assert CATALOGUE.parameters(name, SHAPE, blocks, chosen, vocab=77) == total, chosen


def test_names_begin_with_the_rows_of_table_1_in_order():
    names = CATALOGUE.names()
    assert names[:6] == ("post_ln", "deepnorm", "hybridnorm", "mix_ln", "pre_ln", "keel")
    assert names[6:9] == ("keel_attempt1", "keel_attempt2", "keel_attempt3")
    declarations = [CATALOGUE.declaration(name) for name in names]
    assert [declaration.title for declaration in declarations[:6]] == [
        "Post-LN", "DeepNorm", "HybridNorm", "Mix-LN", "Pre-LN", "Keel",
    ]  # fmt: skip
    rows = [declaration.row for declaration in declarations if declaration.row is not None]
    assert rows == sorted(set(rows))
    assert len({declaration.title for declaration in declarations}) == len(names)


@pytest.mark.parametrize("name", architectures.names())
def test_declaration_is_sound(name):
    declaration = CATALOGUE.declaration(name)
    assert declaration.name == name
    for option in declaration.options.values():
        assert option.help
        if option.later:
            assert not isinstance(option.default, str) or option.kind == "choice"
        if option.kind == "flag":
            assert isinstance(option.default, bool)
            continue
        if option.kind == "choice":
            assert option.default in option.choices
            continue
        assert all(resolve(rule, 32) > 0 for rule in option.names.values())
        value = resolve(option.default, 32)
        assert option.low <= value
        assert value > option.low or not option.open_low
        assert option.high is None or value <= option.high


def constants(name, chosen, blocks=4):
    stack = ResidualStack(architectures.find(name).build(blocks, chosen), [torch.nn.Identity()] * 2 * blocks, 8, 1e-5)
    return [(step.alpha, step.pre is not None, step.post is not None) for step in stack.steps], stack.exit is not None


KEEL = options("keel", 4)


@pytest.mark.parametrize(
    ("change", "first", "second", "final"),
    [
        ({}, (1.0, True, False), (1.0, True, True), False),
        ({"first_ffn_norm": False}, (1.0, True, False), (1.0, True, False), False),
        ({"exemption": False}, (8.0, True, True), (8.0, True, True), False),
        ({"exemption": False, "first_ffn_norm": False}, (8.0, True, True), (8.0, True, False), False),
        ({"final_norm": True}, (1.0, True, False), (1.0, True, True), True),
    ],
)
def test_first_block_of_keel(change, first, second, final):
    steps, has_final = constants("keel", KEEL | change)
    assert steps[:2] == [first, second]
    assert steps[2:] == [(8.0, True, True)] * 6
    assert has_final is final


@pytest.mark.parametrize(
    ("fraction", "blocks", "post"),
    [(0.25, 4, 1), (0.25, 3, 0), (0.25, 7, 1), (0.25, 8, 2), (0.0, 4, 0), (1.0, 4, 4), (0.29, 100, 29), (0.3, 10, 3)],
)
def test_mix_ln_counts_whole_blocks(fraction, blocks, post):
    steps, _ = constants("mix_ln", {"fraction": fraction}, blocks)
    assert steps == [(1.0, False, True)] * 2 * post + [(1.0, True, False)] * 2 * (blocks - post)


def test_affine_step_is_its_equation():
    generator = torch.Generator().manual_seed(0)
    x, matrix = torch.randn(5, 6, generator=generator), torch.randn(6, 6, generator=generator)
    branch = torch.nn.Linear(6, 6, bias=False)
    branch.weight.data = matrix

    def norm(value):
        return value / (value.square().mean(-1, keepdim=True) + 1e-5).sqrt()

    step = Affine(pre=RMSNorm, post=RMSNorm, alpha=3.0, gamma=0.5, scale=0.25)(6, 1e-5)
    wanted = norm(3.0 * x + 0.5 * (0.25 * norm(x)) @ matrix.T)
    torch.testing.assert_close(step(x, branch), wanted)
    torch.testing.assert_close(Affine(gamma=0.5)(6, 1e-5)(x, branch), x + 0.5 * x @ matrix.T)


def test_planning_imports_no_torch():
    program = """
import sys
from trainers.catalogue import CATALOGUE
from keel_lab.settings import ModelSettings
for name in CATALOGUE.names():
    options = {key: 1.0 for key, option in CATALOGUE.declaration(name).options.items() if option.kind != "choice"}
    assert CATALOGUE.parameters(name, ModelSettings(), 16, options, 256) > 0
heavy = {"torch", "lightning", "ray", "mlflow", "pandas", "numpy"} & set(sys.modules)
sys.exit(f"imported {heavy}" if heavy else 0)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_corpora_are_those_of_trainers_data(monkeypatch, tmp_path):
    calls = []
    corpus = SimpleNamespace(
        facts=lambda *a: calls.append(("facts", *a)) or "facts", prepare=lambda *a: calls.append(a)
    )
    monkeypatch.setitem(sys.modules, "trainers.data.corpus", corpus)
    data = {"corpus": "stdlib"}
    assert CATALOGUE.corpus(data, tmp_path) == "facts"
    CATALOGUE.prepare(data, tmp_path, "facts", tmp_path / "to")
    assert calls == [("facts", data, tmp_path), (data, tmp_path, "facts", tmp_path / "to")]


class Mine:
    """x + F(x): an architecture of a user's own, without any norm."""

    DECLARATION = Declaration("mine", "Mine", "none", parameters=lambda model, blocks, options: 0)

    @staticmethod
    def build(blocks, options):
        return Architecture(rule=lambda site: Affine())


@pytest.fixture
def my_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "my_package", SimpleNamespace(Mine=Mine, other=3))


def test_own_architecture(my_package):
    with torch.device("meta"):
        model = Transformer(SHAPE, 2, 50, architectures.find("my_package:Mine").build(2, {}))
    total = sum(parameter.numel() for parameter in model.parameters())
    assert CATALOGUE.parameters("my_package:Mine", SHAPE, 2, {}, vocab=50) == total


@pytest.mark.parametrize("name", ["kel", "keel.py", "", "__init__", "no_such_package:Mine", "my_package:Missing"])
def test_unknown_names(my_package, name):
    with pytest.raises(KeyError, match="architecture"):
        CATALOGUE.declaration(name)


def test_own_object_that_is_no_architecture(my_package):
    with pytest.raises(UsageError, match="must have a DECLARATION"):
        CATALOGUE.declaration("my_package:other")


def test_own_module_whose_import_fails_says_so(monkeypatch, tmp_path):
    (tmp_path / "broken_architecture.py").write_text("import absent_dependency\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError, match="broken_architecture cannot be imported: No module named 'absent_dependency'"):
        CATALOGUE.declaration("broken_architecture:Mine")
    (tmp_path / "odd_architecture.py").write_text("1 / 0\n")
    with pytest.raises(UsageError, match="odd_architecture cannot be imported: ZeroDivisionError: division by zero"):
        CATALOGUE.declaration("odd_architecture:Mine")
