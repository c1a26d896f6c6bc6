"""What a person sees in MLflow, in a real browser (Debian's chromium); screenshots stay in tests/stack/screenshots."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright

from keel_lab.track.destination import experiment_url
from keel_lab.track.mlflow_tracker import MlflowTracker
from tests.mlflow_server import Cursor, Server, collapse, ramp, sweep_of

SCREENSHOTS = Path(__file__).parent / "screenshots"  # ignored by git
ONSETS = {"post_ln": 90, "deepnorm": 110, "hybridnorm": 100, "mix_ln": 105, "pre_ln": 160, "keel": 140}
TRIALS = [ramp(architecture, blocks) for architecture in ONSETS for blocks in (2, 4)]
PATIENCE = 120_000  # milliseconds; the machine may be busy
CHROMIUM = {
    "executable_path": "/usr/bin/chromium",
    "args": ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
}
NO_ASSISTANT = """localStorage.setItem("mlflow.assistant.fab.autoOpenedOnFirstLoad_v1", "true");
localStorage.setItem("mlflow.assistant.panelOpen_v1", "false");"""


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("server"))
    server.start()
    limits = {"patience": 300, "grace": 120}  # its first answer takes a cold server long
    tracker = MlflowTracker(sweep_of("browsed", TRIALS), str(server.folder), server.uri, Cursor(), **limits)
    for planned in TRIALS:
        tracker.record(planned, *collapse(planned, ONSETS[planned.trial.architecture] - 5 * planned.trial.blocks))
    tracker.summary("# Max LR\n\n| architecture | Max LR |\n|---|---|\n| keel | 0.02 |\n", [], {"diverged": 12.0})
    assert tracker.close() == ()
    yield experiment_url(server.uri, tracker._writer.experiment_id)
    server.kill()


@pytest.fixture(scope="module")
def page():
    SCREENSHOTS.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**CHROMIUM)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.set_default_timeout(PATIENCE)
        page.add_init_script(NO_ASSISTANT)
        expect.set_options(timeout=PATIENCE)
        yield page
        browser.close()


def go(page, address):
    page.goto("about:blank")  # else a change behind the # would not load the page anew
    page.goto(address)


def shot(page, name):
    page.wait_for_timeout(1500)  # for what still fades in
    page.screenshot(path=SCREENSHOTS / f"{name}.png")


def test_the_printed_address_shows_curves_of_trials_alone(page, address):
    go(page, address)
    expect(page.get_by_text("12 matching runs")).to_be_visible()  # without the summary
    expect(page.get_by_text("Which architecture tolerates the largest learning rate?", exact=True)).to_be_visible()
    expect(page.get_by_text("Curves", exact=False).first).to_be_visible()
    expect(page.locator(".js-plotly-plot").first).to_be_visible()
    expect(page.get_by_text("train/log10_lr").first).to_be_visible()
    shot(page, "curves")


def test_parallel_coordinates_stand_below_the_curves(page, address):
    go(page, address)
    page.get_by_text("Max LR and what it depends on").first.evaluate("e => e.scrollIntoView()")
    page.get_by_text("Parallel Coordinates").first.evaluate("e => e.scrollIntoView()")
    expect(page.get_by_text("final/best_loss").first).to_be_visible()
    shot(page, "parallel")


def test_runs_are_filtered_by_architecture(page, address):
    go(page, address)
    expect(page.get_by_text("12 matching runs")).to_be_visible()
    search = page.locator('input[value*="tags.kind"]').first
    search.fill('tags.kind = "trial" and params.architecture = "keel"')
    search.press("Enter")
    expect(page.get_by_text("2 matching runs")).to_be_visible()
    shot(page, "filtered")


def test_six_trials_are_selected_and_compared(page, address):
    go(page, address.replace("compareRunsMode=CHART", "compareRunsMode=TABLE"))
    expect(page.get_by_text("12 matching runs")).to_be_visible()
    for column in ("architecture", "blocks", "alpha", "seed", "max_lr", "verdict", "mode"):
        expect(page.get_by_role("columnheader", name=column, exact=True).last).to_be_visible()
    shot(page, "table")
    names = [planned.name for planned in TRIALS if planned.trial.blocks == 2]
    for name in names:
        row = page.locator(".ag-row").filter(has=page.get_by_text(name, exact=True))
        row.locator('input[type="checkbox"]').first.check(force=True)
    page.get_by_role("button", name="Compare", exact=True).click()
    expect(page.get_by_text("Comparing 6 Runs")).to_be_visible()
    expect(page.get_by_text("Parallel Coordinates Plot")).to_be_visible()
    for tab in ("Scatter Plot", "Box Plot", "Contour Plot"):
        expect(page.get_by_text(tab).first).to_be_visible()
    shot(page, "compare")


def test_the_page_of_a_run_that_ended_in_nan_opens(page, address):
    go(page, address)
    page.get_by_role("link", name="keel-b4-s0").first.click()
    expect(page.get_by_text("keel-b4-s0: diverged (collapse)")).to_be_visible()
    expect(page.get_by_text("nonfinite.loss")).to_be_visible()
    expect(page.get_by_text("199: inf, 200: nan")).to_be_visible()
    shot(page, "run")


def test_the_note_leads_to_the_summary(page, address):
    go(page, address)
    page.get_by_text("Which architecture tolerates the largest learning rate?", exact=True).click()
    link = page.get_by_role("link", name="Summary: tables, figures, sweep file")
    expect(link).to_be_visible()
    shot(page, "note")
    go(page, address.partition("#")[0] + link.get_attribute("href"))
    expect(page.get_by_role("cell", name="keel", exact=True)).to_be_visible()
    shot(page, "summary")
