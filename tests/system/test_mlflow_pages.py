"""MLflow's pages of a real sweep in a real browser: Debian's Chromium, driven by Playwright.

What is seen is kept as pictures in test-artifacts/mlflow/ (KEEL_LAB_ARTIFACTS names another folder).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from tests.mlflow_server import Server

REPOSITORY = Path(__file__).parents[2]
PICTURES = Path(os.environ.get("KEEL_LAB_ARTIFACTS", REPOSITORY / "test-artifacts")) / "mlflow"
CHROMIUM = "/usr/bin/chromium"
PATIENCE = 45_000.0  # milliseconds; the pages are megabytes of script, and the machine is slow at times
ARCHITECTURES = ("post_ln", "deepnorm", "hybridnorm", "mix_ln", "pre_ln", "keel")
SWEEP = ("sweeps/quickstart.yaml", "name=pages", "grid.depth.blocks=[2]", "ramp.steps=120", "ramp.peak_lr=10.0")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where `keel-lab run` says that the sweep's charts are, on a server that the test starts."""
    server = Server(tmp_path_factory.mktemp("server"))
    server.start()
    try:
        words = [sys.executable, "-m", "keel_lab", "run", *SWEEP, "--executor", "local", "--tracking", server.uri]
        storage = ["--storage", str(tmp_path_factory.mktemp("store"))]
        ran = subprocess.run(
            [*words, *storage], cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=500
        )
        assert ran.returncode == 0, ran.stderr
        found = re.search(r"^MLflow: (\S+)$", ran.stderr, re.MULTILINE)
        assert found is not None, ran.stderr
        yield found[1]
    finally:
        server.kill()


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])  # CI runs as root
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.set_default_timeout(PATIENCE)
        expect.set_options(timeout=PATIENCE)
        yield page
        browser.close()


def picture(page: Page, name: str) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.wait_for_timeout(1500)  # charts fade in
    page.screenshot(path=PICTURES / f"{name}.png")


def opened(page: Page, address: str, mode: str) -> None:
    page.goto(address.replace("compareRunsMode=CHART", f"compareRunsMode={mode}"))
    expect(page.get_by_role("link", name="keel-b2-s0")).to_be_visible()
    for name in ("Close", "Hide banner"):  # the assistant, and that the view is a shared one
        button = page.get_by_role("button", name=name, exact=True)
        if button.is_visible():
            button.click()


def search(page: Page, words: str, runs: int) -> None:
    box = page.get_by_test_id("search-box")
    box.fill(words)
    box.press("Enter")
    expect(page.get_by_text(f"{runs} matching run")).to_be_visible()


def test_the_address_that_run_prints_shows_the_curves_of_six_trials(address: str, page: Page) -> None:
    opened(page, address, "CHART")
    for name in ARCHITECTURES:
        expect(page.get_by_role("link", name=f"{name}-b2-s0", exact=True)).to_be_visible()
    expect(page.get_by_text("Which of six architectures tolerates").first).to_be_visible()  # the description
    expect(page.get_by_text("Curves", exact=True)).to_be_visible()
    expect(page.locator("svg.main-svg .scatterlayer .trace path.js-line").first).to_be_attached()
    first = page.locator(".js-plotly-plot").first
    expect(first.locator(".scatterlayer .trace")).to_have_count(2 * 6)  # a line, and what it is smoothed from
    expect(first.get_by_text("train/log10_lr")).to_be_visible()
    picture(page, "curves")


def test_the_table_has_the_columns_of_a_reader_of_max_lr_and_filters_by_architecture(address: str, page: Page) -> None:
    opened(page, address, "TABLE")
    for column in ("architecture", "blocks", "alpha", "seed"):
        expect(page.get_by_role("columnheader", name=column, exact=True).first).to_be_visible()
    picture(page, "table")
    search(page, 'params.architecture = "keel"', 1)
    expect(page.get_by_role("link", name="pre_ln-b2-s0")).to_have_count(0)
    search(page, 'tags.kind = "trial" and params.verdict = "diverged"', 6)
    search(page, "metrics.`final/last_good_lr` > 0", 6)


def test_six_trials_compared_show_parallel_coordinates_and_their_params(address: str, page: Page) -> None:
    opened(page, address, "TABLE")
    search(page, 'tags.kind = "trial"', 6)
    page.locator("input[type=checkbox]:visible").first.click()  # the header's: all of them
    page.get_by_test_id("runs-compare-button").click()
    expect(page.get_by_text("Comparing 6 Runs from 1 Experiment")).to_be_visible()
    expect(page.get_by_role("tab", name="Parallel Coordinates Plot")).to_have_attribute("aria-selected", "true")
    plot = page.locator(".js-plotly-plot")
    expect(plot.locator(".parcoords")).to_be_attached()
    expect(plot.get_by_text("architecture", exact=True)).to_be_visible()
    for name in ARCHITECTURES:
        expect(plot.get_by_text(name, exact=True)).to_be_visible()
    picture(page, "compare")
    page.get_by_role("tab", name="Contour Plot").click()
    picture(page, "contour")


def test_a_run_s_page_tells_its_story(address: str, page: Page) -> None:
    opened(page, address, "TABLE")
    page.get_by_role("link", name="keel-b2-s0").click()
    expect(
        page.get_by_text(re.compile(r"keel-b2-s0: diverged.* from step \d+; Max LR [\d.e-]+; \d+ steps"))
    ).to_be_visible()
    for metric in ("train/paired_loss", "diag/grad_norm", "cost/seconds_per_step"):
        expect(page.get_by_text(metric, exact=True).first).to_be_visible()
    picture(page, "run")
