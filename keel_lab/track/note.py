"""What a person reads first: the descriptions of an experiment and of its summary run, in Markdown."""

from __future__ import annotations

from collections.abc import Mapping

NOTE_LIMIT = 5000  # characters of an experiment's or a run's description that MLflow accepts


def experiment_note(question: str, sweep_yaml: str, links: Mapping[str, str], root: str) -> str:
    """The question, where to go from here, and the resolved sweep file, within MLflow's limit.

    Args:
        question: of the sweep; may be empty.
        sweep_yaml: the resolved sweep file.
        links: address by text; relative ones hold on whatever server shows the page.
        root: storage root, without secrets.
    """
    places = " · ".join(f"[{text}]({address})" for text, address in links.items())
    head = f"**{question}**\n\n" if question else ""
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
    kept = text[: room - len(rest)]
    return kept.rpartition("\n")[0] + rest
