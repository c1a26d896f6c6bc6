"""What a person reads first: the descriptions of an experiment and of its summary run, in Markdown."""

from __future__ import annotations

from collections.abc import Mapping

NOTE = "mlflow.note.content"  # the tag that MLflow shows as the description
NOTE_LIMIT = 5000  # characters of an experiment's or a run's description that MLflow accepts

QUESTION_LIMIT = 1500  # of a question, so that there is room for links and the beginning of the file


def experiment_note(question: str, sweep_yaml: str, links: Mapping[str, str], root: str) -> str:
    """The question, where to go from here, and the resolved sweep file, within MLflow's limit.

    Args:
        question: of the sweep; may be empty.
        sweep_yaml: the resolved sweep file.
        links: address by text; relative ones hold on whatever server shows the page.
        root: storage root, without secrets.
    """
    places = " · ".join(f"[{text}]({address})" for text, address in links.items())
    kept = question[:QUESTION_LIMIT]
    asked = question if kept == question else f"{kept.rpartition(' ')[0] or kept} ..."
    rest = "" if asked == question else "The whole question is in `sweep.yaml`, an artifact of the run `summary`.\n\n"
    head = f"**{asked}**\n\n{rest}" if question else ""
    head += f"{places}\n\n" if places else ""
    head += f"Every number's curve is in storage: `{root}`. The sweep file, with every default:\n\n```yaml\n"
    tail = "\n```\n"
    return head + cut(sweep_yaml.rstrip(), NOTE_LIMIT - len(head) - len(tail), "\n# ... the rest: sweep.yaml") + tail


def summary_note(report: str) -> str:
    """The report's beginning; the whole is an artifact."""
    return cut(report, NOTE_LIMIT, "\n\n... the rest: report.md under Artifacts")


def cut(text: str, room: int, rest: str) -> str:
    """The text if there is room, else whole lines of it and `rest`."""
    if len(text) <= room:
        return text
    kept = text[: max(0, room - len(rest))]
    return kept.rpartition("\n")[0] + rest
