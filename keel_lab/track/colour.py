"""The colour of a run in MLflow's charts: its architecture's, so that seeds and depths of one belong together."""

from __future__ import annotations

from keel_lab.plan.planned import PlannedTrial

TAG = "mlflow.runColor"  # read by MLflow's web pages (3.17), as if a user had chosen it there

# Okabe and Ito's, which people of every colour vision tell apart
COLOURS = {
    "post_ln": "#d55e00",
    "deepnorm": "#009e73",
    "hybridnorm": "#cc79a7",
    "mix_ln": "#e69f00",
    "pre_ln": "#56b4e9",
    "keel": "#0072b2",
}


def colour_tags(planned: PlannedTrial) -> dict[str, str]:
    """The tag for a trial of the six architectures without other axes; else MLflow chooses, or all would look alike."""
    cell = planned.cell
    if cell.axes or cell.architecture not in COLOURS:
        return {}
    return {TAG: COLOURS[cell.architecture]}
