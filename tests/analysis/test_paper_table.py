from __future__ import annotations

import pytest

from analysis.paper_table import ratio_for, ratios


def test_ratios_by_hand():
    assert ratios()["keel", 32] == pytest.approx(1.01e-2 / 7.65e-3)
    assert round(ratios()["keel", 32], 2) == 1.32
    assert ratios()["keel", 256] == pytest.approx(6.31e-3 / 4.67e-3)
    assert ratios()["post_ln", 32] == pytest.approx(3.0e-4 / 7.65e-3)
    assert ratios()["mix_ln", 256] == pytest.approx(3.5e-4 / 4.67e-3)
    assert len(ratios()) == 12


def test_only_the_papers_depths_and_options_compare(lab):
    def ratio(architecture, blocks, **options):
        return ratio_for(lab.plan("t", architecture, blocks, options=options).trial)

    assert ratio("pre_ln", 32) == ratio("pre_ln", 256) == 1.0
    assert ratio("pre_ln", 64) is None  # 64 blocks are 128 sub-layers
    assert ratio("pre_ln", 16) is None
    assert ratio("admin", 32) is None
    assert ratio("keel", 32, alpha=64.0) == pytest.approx(1.3203, rel=1e-4)
    assert ratio("keel", 32, alpha=1.0) is None
    assert ratio("keel", 32, alpha=64.0, first_ffn_norm=False) is None
    assert ratio("deepnorm", 32, alpha=64**0.25, beta=0.25) == pytest.approx(3.5e-4 / 7.65e-3)
    assert ratio("deepnorm", 32, alpha=1.0) is None
    assert ratio("mix_ln", 32, fraction=0.5) is None
