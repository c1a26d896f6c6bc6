"""Sweep files against the architectures that ship: what is refused, what collapses, and ids that stay."""

from pathlib import Path

import pytest

from keel_lab.architecture import CorpusFacts
from keel_lab.errors import SpecError
from keel_lab.plan import Plan, expand
from keel_lab.settings import ModelSettings
from keel_lab.spec import load, parse
from trainers.catalogue import CATALOGUE

FACTS = CorpusFacts(fingerprint="f" * 64, tokens=1_000_000, vocab=256, tokenizer="bytes", source="stdlib")
SWEEPS = Path(__file__).parents[2] / "sweeps"


def planned(architecture: str, *lines: str) -> Plan:
    return expand(checked(architecture, *lines), CATALOGUE, FACTS)


def checked(architecture, *lines):
    grid = f"grid: {{architecture: {architecture}, depth: {{blocks: [4]}}}}"
    text = "\n".join(["schema: 1", "name: s", "protocol: ramp", grid, "siblings: {reference: false}", *lines])
    return parse(text, "s.yaml", Path("/sweeps"), [], CATALOGUE)


def refusals(architecture, *lines):
    with pytest.raises(SpecError) as caught:
        checked(architecture, *lines)
    return str(caught.value).splitlines()


# the trials of sweeps/quickstart.yaml on a corpus of this fingerprint, as the first version of keel_lab planned them
FIRST_IDS = {
    "post_ln": "e117f461968d42c2",
    "deepnorm": "734458e65ee21cfe",
    "hybridnorm": "a69d84cf9a466efb",
    "mix_ln": "83118e69b764f371",
    "pre_ln": "824bcae233e50557",
    "keel": "d0436c44e2085929",
}


def test_trials_planned_by_the_first_version_keep_their_ids():
    plan = expand(load(SWEEPS / "quickstart.yaml", [], CATALOGUE), CATALOGUE, FACTS)
    assert {planned.trial.architecture: planned.trial.id for planned in plan.trials} == FIRST_IDS


@pytest.mark.parametrize(
    "changes",
    ["qk_norm: true", "tied_head: true", "ffn: gelu", "ffn: moe", "init_std: depth_scaled", "kv_heads: 1"],
)
def test_a_field_that_is_not_at_its_default_makes_another_trial(changes):
    (plain,), (changed,) = (planned("[keel]", *lines).trials for lines in ((), (f"model: {{{changes}}}",)))
    assert plain.trial.id != changed.trial.id


@pytest.mark.parametrize("changes", ["experts: 5", "top_k: 1", "balance_weight: 0"])
def test_so_do_the_fields_of_a_moe(changes):
    sweeps = ("ffn: moe", f"ffn: moe, {changes}")
    (plain,), (changed,) = (planned("[keel]", f"model: {{{fields}}}").trials for fields in sweeps)
    assert plain.trial.id != changed.trial.id


@pytest.mark.parametrize(
    ("option", "usual", "change"),
    [
        ("inner_norm", "true", "false"),
        ("learnable_alpha", "false", "true"),
        ("alpha_profile", "flat", "rising"),
        ("ffn_factor", "1", "2"),
    ],
)
def test_an_option_that_came_later_counts_once_it_is_used(option, usual, change):
    written = ((), *((f"per_architecture: {{keel: {{{option}: {value}}}}}",) for value in (usual, change)))
    (plain,), (default,), (changed,) = (planned("[keel]", *lines).trials for lines in written)
    assert plain.trial.id == default.trial.id
    assert option not in plain.trial.options
    assert option in plain.labels
    assert option in changed.trial.options
    assert plain.trial.id != changed.trial.id


def test_a_named_rule_is_the_rule():
    (named,) = planned("[deepnorm]", "per_architecture: {deepnorm: {beta: keel_paper}}").trials
    (rule,) = planned("[deepnorm]", "per_architecture: {deepnorm: {beta: L^-0.25}}").trials
    assert named.trial.id == rule.trial.id
    assert named.labels["beta"] == "L^-0.25"
    assert planned("[deepnorm]", "per_architecture: {deepnorm: {beta: [deepnet, keel_paper]}}").collapsed == 0


def test_what_makes_no_difference_collapses_before_ids_are_made():
    """qk_norm where an architecture has it anyway, experts where the FFN is no MoE."""
    plan = planned("[pre_ln, hybridnorm, hybridnorm_star]", "model: {qk_norm: [false, true]}")
    assert [str(item.cell) for item in plan.trials] == [
        "pre_ln 4 blocks qk_norm=false",
        "pre_ln 4 blocks qk_norm=true",
        "hybridnorm 4 blocks",
        "hybridnorm_star 4 blocks",
    ]
    assert plan.collapsed == 2
    plan = planned("[pre_ln]", "model: {ffn: [swiglu, moe], experts: [2, 3], top_k: 2}")
    assert [str(item.cell) for item in plan.trials] == [
        "pre_ln 4 blocks ffn=swiglu",
        "pre_ln 4 blocks ffn=moe experts=2",
        "pre_ln 4 blocks ffn=moe experts=3",
    ]
    dense, *_ = plan.trials
    assert "experts" not in dense.labels
    assert dense.trial.model == ModelSettings()


@pytest.mark.parametrize(
    ("architecture", "lines", "says"),
    [
        ("[kel]", (), "grid.architecture: found kel; must be one of post_ln, deepnorm"),
        ("[kel]", (), "(did you mean keel?)"),
        ("[hybridnorm*]", (), "(did you mean hybridnorm?)"),
        ("[Sandwich-LN]", (), "(did you mean sandwich_ln?)"),
        ("[peri_nl]", (), "(did you mean peri_ln?)"),
        ("[admn]", (), "(did you mean admin?)"),
        ("[pre_ln]", ("per_architecture: {pre_ln: {alpha: 2}}",), "an unknown option; pre_ln has no options"),
        (
            "[keel_attempt2]",
            ("per_architecture: {keel_attempt2: {final_norm: true}}",),
            "an unknown option; keel_attempt2 has the options alpha, exemption",
        ),
        (
            "[keel]",
            ("per_architecture: {keel: {learnable_alhpa: true}}",),
            "keel has the options alpha, final_norm, exemption, first_ffn_norm, inner_norm, learnable_alpha, "
            "alpha_profile, ffn_factor (did you mean learnable_alpha?)",
        ),
        (
            "[keel]",
            ("per_architecture: {keel: {alpha_profile: risng}}",),
            "found risng; must be one of flat, rising, falling (did you mean rising?)",
        ),
        (
            "[deepnorm]",
            ("per_architecture: {deepnorm: {beta: keelpaper}}",),
            "above 0, or deepnet or keel_paper (did you mean keel_paper?)",
        ),
        ("[mix_ln]", ("per_architecture: {mix_ln: {fraction: 1.01}}",), "of at least 0 and of at most 1"),
        ("[mix_ln]", ("per_architecture: {mix_ln: {fraction: -0.01}}",), "of at least 0 and of at most 1"),
        ("[mix_ln]", ("per_architecture: {mix_ln: {fraction: .nan}}",), "found .nan; must be a number of at least 0"),
        ("[pre_ln]", ("model: {top_k: 2}", "train: {eps: .inf}"), "train.eps: found .inf; must be a number above 0"),
        ("[pre_ln]", ("model: {norm_eps: .inf}",), "model.norm_eps: found .inf; must be a number above 0"),
        ("[pre_ln]", ("model: {init_std: .nan}",), "model.init_std: found .nan; must be a number above 0, or one of"),
        ("[pre_ln]", ("model: {init_std: depth_scale}",), "(did you mean depth_scaled?)"),
        ("[pre_ln]", ("model: {ffn: geglu}",), "model.ffn: found geglu; must be one of swiglu, gelu, moe"),
        ("[pre_ln]", ("model: {qk_norm: yes}",), "model.qk_norm: found yes (a string); must be true or false"),
        ("[pre_ln]", ("model: {experts: 8}",), "model.experts: found 8; no FFN of this sweep is a moe"),
        ("[pre_ln]", ("model: {ffn: moe, top_k: 5}",), "model.top_k: found 5; must be at most experts (4)"),
        ("[pre_ln]", ("model: {ffn: moe, experts: 1}",), "model.experts: found 1; must be at least top_k (2)"),
        ("[pre_ln]", ("model: {ffn: moe, balance_weight: -1}",), "found -1; must be a number of at least 0"),
    ],
)
def test_refused_at_plan_time(architecture, lines, says):
    assert any(says in line for line in refusals(architecture, *lines)), refusals(architecture, *lines)


CONSTANTS = [
    (name, option)
    for name in CATALOGUE.names()
    for option, known in CATALOGUE.declaration(name).options.items()
    if known.kind == "rule"
]


@pytest.mark.parametrize("value", ["0", "-1", "0L", ".inf", "-.inf", ".nan", "L^99999"])
@pytest.mark.parametrize(("name", "option"), CONSTANTS)
def test_constants_are_positive_and_finite(name, option, value):
    (said,) = refusals(f"[{name}]", f"per_architecture: {{{name}: {{{option}: {value}}}}}")
    assert f"per_architecture.{name}.{option}: found {value};" in said
    assert "above 0" in said or "no finite value" in said
