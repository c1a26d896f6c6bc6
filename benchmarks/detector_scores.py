"""What the answers of one detector to labelled curves are worth: precision, recall, onset error, Max LR."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import NamedTuple

from benchmarks.corpus import Case
from keel_lab.detect.verdict import Mode, Status


@dataclass(frozen=True)
class Answer:
    """What a detector says of a curve; `last_good_step` and its LR as in `keel_lab.detect.verdict.Verdict`."""

    status: Status
    mode: Mode | None = None
    last_good_step: int | None = None
    last_good_lr: float | None = None

    @property
    def diverged(self) -> bool:
        """Whether it calls the curve diverged."""
        return self.status is Status.DIVERGED


class Answered(NamedTuple):
    """A labelled curve and a detector's answer to it."""

    case: Case
    answer: Answer


class Share(NamedTuple):
    """`k` of `n`."""

    k: int
    n: int

    @property
    def value(self) -> float | None:
        """As a fraction; None of nothing."""
        return self.k / self.n if self.n else None


@dataclass(frozen=True)
class ModeScore:
    """One mode.

    Attributes:
        found: curves of this mode that were called diverged, in whatever mode.
        recall: those that were given this mode; None if the detector never names it.
        precision: curves given this mode that have it, unconfirmed ones aside; None if the detector never names it.
    """

    found: Share
    recall: Share | None
    precision: Share | None


@dataclass(frozen=True)
class OnsetError:
    """Steps from the last good step to the label's interval, 0 inside; over `n` curves.

    Attributes:
        n: curves with an interval that were called diverged, with a last good step.
        median, p90: of the distances (p90: the least that 90% do not exceed).
        bias: mean, late positive.
    """

    n: int
    median: float
    p90: int
    bias: float


@dataclass(frozen=True)
class LRRatio:
    """Max LR over the label's (LR at the middle of its interval), on ramps, over `n` curves; `worst` on a log scale."""

    n: int
    median: float
    worst: float


@dataclass(frozen=True)
class Scores:
    """One detector on some curves. Curves labelled unconfirmed count in `on_unconfirmed` only.

    Attributes:
        precision, recall: of `diverged`.
        still_open: curves that diverge, but end before a confirmation could be waited for: called unconfirmed. In a run
            of ours the LR is held until it is.
        on_healthy, on_transient, on_unconfirmed: how many of those were called diverged.
        modes: see `ModeScore`.
        onset, max_lr: None if no curve has both answers.
    """

    precision: Share
    recall: Share
    still_open: Share
    on_healthy: Share
    on_transient: Share
    on_unconfirmed: Share
    modes: dict[Mode, ModeScore]
    onset: OnsetError | None
    max_lr: LRRatio | None


def score(answered: Sequence[Answered], names: Collection[Mode]) -> Scores:
    """Scores a detector that can name the modes `names`."""
    settled = [one for one in answered if one.case.label.verdict is not Status.UNCONFIRMED]
    return Scores(
        precision=_share(settled, _called, _is_diverged),
        recall=_share(settled, _is_diverged, _called),
        still_open=_share(settled, _is_diverged, lambda one: one.answer.status is Status.UNCONFIRMED),
        on_healthy=_share(answered, _labelled(Status.HEALTHY), _called),
        on_transient=_share(answered, _labelled(Status.TRANSIENT), _called),
        on_unconfirmed=_share(answered, _labelled(Status.UNCONFIRMED), _called),
        modes={mode: _mode_score(settled, mode, mode in names) for mode in Mode},
        onset=_onset_error([off for off in map(onset_off, answered) if off is not None]),
        max_lr=_lr_ratio([ratio for ratio in map(lr_ratio, answered) if ratio is not None]),
    )


def onset_off(one: Answered) -> int | None:
    """Steps from the interval of the label to the last good step, late positive; None without either."""
    good, answer = one.case.label.good, one.answer
    if not _is_diverged(one) or good is None or not answer.diverged or answer.last_good_step is None:
        return None
    low, high = good
    return min(0, answer.last_good_step - low) + max(0, answer.last_good_step - high)


def lr_ratio(one: Answered) -> float | None:
    """The LR of the last good step over that at the middle of the label's interval, on a ramp; None elsewhere."""
    good, lr = one.case.label.good, one.answer.last_good_lr
    if onset_off(one) is None or good is None or lr is None or not one.case.is_ramp:
        return None
    labelled = one.case.lr_at(sum(good) // 2)
    return lr / labelled if labelled else None


def faults(one: Answered, names: Collection[Mode], *, confirms: bool) -> list[str]:
    """What is wrong with an answer, in words; nothing is wrong where the label is unconfirmed.

    Args:
        one: the curve and the answer.
        names: modes that the detector can name.
        confirms: whether it tells transient from healthy.
    """
    label, answer = one.case.label, one.answer
    if label.verdict is Status.UNCONFIRMED:
        return []
    if answer.diverged and label.verdict is not Status.DIVERGED:
        return ["false alarm"]
    if not answer.diverged and label.verdict is Status.DIVERGED:
        return ["still open at its end" if answer.status is Status.UNCONFIRMED else "missed"]
    if label.verdict is not Status.DIVERGED:
        return [f"is {label.verdict}"] if confirms and answer.status is not label.verdict else []
    found = [f"is {label.mode}"] if label.mode in names and answer.mode is not label.mode else []
    off = onset_off(one)
    if off:
        found.append(f"onset {abs(off)} steps {'late' if off > 0 else 'early'}")
    elif off is None and label.good is not None:
        found.append("no last good step")
    return found


def _called(one: Answered) -> bool:
    return one.answer.diverged


def _is_diverged(one: Answered) -> bool:
    return one.case.label.verdict is Status.DIVERGED


def _labelled(verdict: Status) -> Callable[[Answered], bool]:
    return lambda one: one.case.label.verdict is verdict


def _share(
    answered: Sequence[Answered], among: Callable[[Answered], bool], counted: Callable[[Answered], bool]
) -> Share:
    them = [one for one in answered if among(one)]
    return Share(sum(map(counted, them)), len(them))


def _mode_score(settled: Sequence[Answered], mode: Mode, named: bool) -> ModeScore:
    def has(one: Answered) -> bool:
        return one.case.label.mode is mode

    def given(one: Answered) -> bool:
        return one.answer.mode is mode

    return ModeScore(
        found=_share(settled, has, _called),
        recall=_share(settled, has, given) if named else None,
        precision=_share(settled, given, has) if named else None,
    )


def _onset_error(offs: Sequence[int]) -> OnsetError | None:
    if not offs:
        return None
    distances = sorted(map(abs, offs))
    return OnsetError(len(offs), median(distances), distances[math.ceil(0.9 * len(offs)) - 1], fmean(offs))


def _lr_ratio(ratios: Sequence[float]) -> LRRatio | None:
    if not ratios:
        return None
    return LRRatio(len(ratios), median(ratios), max(ratios, key=lambda ratio: abs(math.log(ratio))))
