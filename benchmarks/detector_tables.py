"""The scores of detectors as aligned plain text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from benchmarks.corpus import Label
from benchmarks.detector_scores import Answered, Scores, Share
from keel_lab.detect.verdict import Mode, Status


def described(title: str, labels: Sequence[Label]) -> str:
    """One paragraph: how many curves of what kind, and how far the two blind labels agree."""
    verdicts = Counter(label.verdict for label in labels)
    modes = Counter(label.mode for label in labels)
    kinds = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in Status if verdicts[verdict])
    named = ", ".join(f"{modes[mode]} {mode}" for mode in Mode if modes[mode])
    both = agreement(labels)
    return (
        f"{title}: {len(labels)} curves: {kinds or 'none'}{f' ({named})' if named else ''}\n"
        f"labelled twice, blind: {both['labelled_twice']}; same verdict: {both['same_verdict']}; "
        f"same verdict and mode: {both['same_mode']}"
    )


def agreement(labels: Sequence[Label]) -> dict[str, int]:
    """How many curves have two blind labels, and how many of these agree."""
    pairs = [
        (first.partition("/"), second.partition("/"))
        for first, second in ((label.first, label.second) for label in labels)
        if first and second
    ]
    same = [(first, second) for first, second in pairs if first[0] == second[0]]
    both = sum(first[2] == second[2] for first, second in same)
    return {"labelled_twice": len(pairs), "same_verdict": len(same), "same_mode": both}


def verdict_table(scores: Mapping[str, Scores]) -> list[list[str]]:
    """A row a detector: is it diverged, since when, and at which LR."""
    top = ["", "diverged", "", "", "false alarms on", "", "last good step off by", "", "", "", "Max LR / label", "", ""]
    head = ["detector", "precision", "recall", "open", "healthy", "transient"]
    head += ["n", "median", "90%", "bias", "n", "median", "worst"]
    rows = [top, head]
    for name, one in scores.items():
        row = [name, _text(one.precision), _text(one.recall), str(one.still_open.k)]
        row += [_text(one.on_healthy), _text(one.on_transient)]
        onset, lr = one.onset, one.max_lr
        row += [str(onset.n), f"{onset.median:g}", str(onset.p90), f"{onset.bias:+.1f}"] if onset else ["0", "", "", ""]
        row += [str(lr.n), f"{lr.median:.2f}", f"{lr.worst:.3g}"] if lr else ["0", "", ""]
        rows.append(row)
    return rows


def mode_table(scores: Mapping[str, Scores]) -> list[list[str]]:
    """A row a detector: how many of each mode are found, and how many get the right mode."""
    rows = [[""], ["detector"]]
    for mode in Mode:
        rows[0] += [str(mode), "", ""]
        rows[1] += ["found", "recall", "precis."]
    for name, one in scores.items():
        shares = [share for mode in one.modes.values() for share in (mode.found, mode.recall, mode.precision)]
        rows.append([name, *("-" if share is None else f"{share.k}/{share.n}" for share in shares)])
    return rows


def _text(share: Share) -> str:
    return f"{share.k}/{share.n}" + ("" if share.value is None else f" {share.value:.2f}")


def aligned(rows: Sequence[Sequence[str]], headers: int = 0) -> str:
    """Columns side by side; the first `headers` rows may run over into empty cells at their right."""
    widths = [max(map(len, column)) for column in zip(*rows[headers:], strict=True)]
    lines = []
    for row in rows:
        line, at = "", 0
        for cell, width in zip(row, widths, strict=True):
            line = line.ljust(at) + cell if cell else line
            at += width + 2
        lines.append(line)
    return "\n".join(lines)


def fault_table(wrong: Iterable[tuple[str, Answered, Sequence[str]]]) -> list[list[str]]:
    """A row for each (detector, answer, what is wrong with it)."""
    rows = [["detector", "part", "trial", "answer", "last good", "label's", "wrong"]]
    for name, one, faults in wrong:
        label, answer = one.case.label, one.answer
        good = "-" if label.good is None else f"{label.good[0]}..{label.good[1]}"
        said = str(answer.status) if answer.mode is None else f"{answer.status} ({answer.mode})"
        step = str(answer.last_good_step) if answer.diverged and answer.last_good_step is not None else "-"
        rows.append([name, label.part, label.trial, said, step, good, "; ".join(faults)])
    return rows
