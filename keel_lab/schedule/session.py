"""The worker's side of a running trial: what the trainer reports becomes a curve, a verdict, news and checkpoints."""

from __future__ import annotations

import logging
import math
import shutil
import socket
import statistics
import time
from pathlib import Path
from typing import Any

from keel_lab.curve import Curve, Step
from keel_lab.detect.agreement import with_whole_curve
from keel_lab.detect.verdict import Status, Verdict
from keel_lab.detect.watch import Watch
from keel_lab.result import Failure, Outcome, TrialResult
from keel_lab.schedule.executor import Task
from keel_lab.schedule.limits import Limits
from keel_lab.schedule.local_data import data_folder
from keel_lab.schedule.mailbox import Mailbox
from keel_lab.schedule.news import News
from keel_lab.schedule.provenance import provenance
from keel_lab.schedule.reporting import Resume
from keel_lab.schedule.resuming import stored_checkpoint
from keel_lab.schedule.settled import outcome_of
from keel_lab.search.rungs import rung_losses, rung_steps
from keel_lab.store.root import Root, StorageError
from keel_lab.store.trials import Trials

CHECKPOINT_EVERY = 30.0  # seconds
BRIEF = 2.0  # seconds of an attempt, below which a power cut may cost it, but no sync may

logger = logging.getLogger(__name__)


class Session:
    """The `Report` that a trainer is handed, for one attempt at one trial.

    A checkpoint written after the last step of a finished run is stored only after its result (`commit`): a run that is
    killed in between would otherwise resume behind its own end, with one update too many.
    """

    def __init__(self, task: Task, root: Root, mailbox: Mailbox, workdir: Path, limits: Limits | None = None) -> None:
        self._task = task
        self._limits = limits or Limits(task.seconds)
        self._root = root
        self._trials = Trials(root)
        self._mailbox = mailbox
        self._workdir = workdir
        self._started_at = time.time()
        self._clock = self._began = time.perf_counter()
        self._checkpoint_at = self._clock + CHECKPOINT_EVERY
        self._saved_step = 0
        self._stored_step = 0
        self._last_checkpoint: Path | None = None
        self._watch: Watch | None = None
        self._data: dict[str, float] = {}
        self._execution: dict[str, Any] = {}
        self._metrics: dict[str, float] = {}
        self._nonfinite: list[str] = []
        self._over = False
        self._finished = False
        self._resume, self._curve = self._stored_checkpoint()
        self._news = News(task.trial, mailbox, self._clock, task.sample_every)
        self._marks = frozenset(rung_steps(task.trial.schedule.steps, task.rungs)) if task.rungs else frozenset()

    @property
    def resume(self) -> Resume | None:
        """See `Report.resume`."""
        return self._resume

    @property
    def over(self) -> bool:
        """Whether `step` has returned False."""
        return self._over

    @property
    def finished(self) -> bool:
        """See `Report.finished`; True before the first step if the resumed curve is already a finished one."""
        return self._finished

    @property
    def checkpoint_due(self) -> bool:
        """See `Report.checkpoint_due`."""
        if self._over or len(self._curve) in self._task.keep:
            return self._saved_step != len(self._curve)
        return time.perf_counter() >= self._checkpoint_at

    def data_folder(self) -> Path:
        """See `Report.data_folder`."""
        return data_folder(self._task.trial, self._root)

    def facts(self, *, unigram_entropy: float | None = None, chance: float | None = None, **execution: Any) -> None:
        """See `Report.facts`."""
        if self._watch is not None:
            raise RuntimeError("facts() must come before the first step()")
        known = {"unigram_entropy": unigram_entropy, "chance": chance}
        self._data = {name: float(value) for name, value in known.items() if value is not None}
        self._execution = execution
        self._start_watch()

    def step(self, step: Step, seconds: float = math.nan) -> bool:
        """See `Report.step`."""
        watch = self._watch or self._start_watch()
        if self._over:
            return False
        if step.step != len(self._curve) + 1:
            raise ValueError(f"the trainer reported step {step.step}, but step {len(self._curve) + 1} is next")
        try:
            math.isfinite(step.loss), math.isfinite(step.lr)
        except TypeError:
            said = f"loss {step.loss!r} and lr {step.lr!r} at step {step.step}"
            raise TypeError(f"the trainer reported {said}: numbers are needed") from None
        now = time.perf_counter()
        self._curve.append(step, seconds if seconds == seconds else now - self._clock)
        self._clock = now
        go_on = watch.update(step)
        if step.step in self._marks:
            self._say_rungs()
        self._news.step(step, watch.state, now)
        if not go_on:
            self._over = self._finished = True
        elif self._mailbox.stop_requested or self._limits.reached:
            self._over = True
        return not self._over

    def checkpoint(self, path: Path) -> None:
        """See `Report.checkpoint`. Storage that is full or away is logged and tried again at the next one."""
        if not path.is_file():
            raise FileNotFoundError(f"the trainer's checkpoint {path} does not exist or is no file")
        self._saved_step = len(self._curve)
        self._checkpoint_at = time.perf_counter() + CHECKPOINT_EVERY
        if self._finished:
            folder = self._workdir / "last-checkpoint"
            folder.mkdir(exist_ok=True)
            self._last_checkpoint = Path(shutil.copy2(path, folder / path.name))
        else:
            self._put_checkpoint(path)

    def metric(self, name: str, value: float) -> None:
        """See `Report.metric`. A value that is not finite is left out and named in `execution.nonfinite_metrics`."""
        if math.isfinite(value):
            self._metrics[name] = float(value)
        else:
            self._nonfinite.append(name)

    def result(self) -> TrialResult:
        """What became of the run, after the trainer has returned.

        Raises:
            RuntimeError: if the trainer returned although `step` told it to go on.
        """
        if not self._over or self._watch is None:
            raise RuntimeError(f"the trainer returned after step {len(self._curve)}, before the run was over")
        self._news.close(self._watch.state)
        verdict = self._watch.verdict()
        if self._finished:
            entropy = self._data.get("unigram_entropy")
            verdict = with_whole_curve(verdict, self._curve.steps, self._task.thresholds, entropy)
        return TrialResult(
            trial_id=self._task.trial.id,
            outcome=outcome_of(verdict) if self._finished else Outcome.STOPPED,
            steps=len(self._curve),
            verdict=verdict,
            thresholds=self._task.thresholds.model_dump(mode="json"),
            metrics=dict(self._metrics),
            data=dict(self._data),
            execution=self._execution_facts(),
            learn_by=self._task.learn_by,
        )

    def cut_short(self) -> Failure | None:
        """What the attempt failed of if it was stopped by its limits, and not by the driver or its own end."""
        if self._finished or self._mailbox.stop_requested or not self._limits.reached:
            return None
        return self._limits.failure(self._stored_step, socket.gethostname())

    def say(self, text: str) -> None:
        """Tells the user what keeps a finished run from being stored."""
        self._news.say(text, "storing")

    def commit(self, result: TrialResult) -> None:
        """Stores a finished run's curve and result, then its last checkpoint."""
        lasts = time.perf_counter() - self._began > BRIEF
        # A last checkpoint must not outlive its result, or a power cut would let the run go on behind its own end.
        self._trials.commit(result, self._curve, lasts or self._last_checkpoint is not None)
        if self._last_checkpoint is not None:
            self._put_checkpoint(self._last_checkpoint)

    def _stored_checkpoint(self) -> tuple[Resume | None, Curve]:
        stored = stored_checkpoint(self._task.trial, self._trials, self._workdir / "resumed")
        if stored is None:
            return None, Curve()
        self._saved_step = self._stored_step = stored.step
        return Resume(stored.step, stored.file), stored.curve.prefix(stored.step)

    def _start_watch(self) -> Watch:
        """Starts the detector and replays what the resumed curve holds; H1 is known only now."""
        entropy = self._data.get("unigram_entropy")
        self._watch = watch = Watch(self._task.trial.schedule, self._task.thresholds, entropy, self._task.learn_by)
        self._news.unigram_entropy = entropy
        for step in list(self._curve):
            if not watch.update(step):  # finished earlier under other thresholds than it was watched under before
                self._curve = self._curve.prefix(step.step)
                self._over = self._finished = True
                break
        if self._marks and len(self._curve):
            self._say_rungs()
        self._clock = time.perf_counter()
        return watch

    def _say_rungs(self) -> None:
        """The losses at the marks so far go out with the next news, at once."""
        trial, entropy = self._task.trial, self._data.get("unigram_entropy")
        losses = rung_losses(self._curve.steps, trial, self._task.rungs, entropy)
        self._news.rungs([(tokens // trial.tokens_per_step, loss) for tokens, loss in losses.items()])

    def _put_checkpoint(self, path: Path) -> None:
        try:
            self._trials.put_checkpoint(self._task.trial.id, len(self._curve), path, self._curve)
            if len(self._curve) in self._task.keep:
                self._trials.keep_checkpoint(self._task.trial.id, len(self._curve), path, self._curve)
            self._stored_step = len(self._curve)
        except (OSError, StorageError) as error:
            self._news.note = f"checkpoint at step {len(self._curve)} could not be stored: {error}"
            logger.warning(self._news.note)

    def _execution_facts(self) -> dict[str, Any]:
        seconds = [value for value in self._curve.seconds if value == value]
        facts = {
            **provenance(),
            **self._execution,
            "host": socket.gethostname(),
            "attempt": self._task.attempt,
            "started_at": self._started_at,
            "finished_at": self._started_at
            + time.perf_counter()
            - self._began,  # whatever the clock was set to meanwhile
            "seconds_per_step": statistics.median(seconds) if seconds else None,
        }
        return facts | ({"nonfinite_metrics": self._nonfinite} if self._nonfinite else {})


def not_begun(task: Task) -> TrialResult:
    """The result of a queued task that was asked to stop before it began."""
    verdict = Verdict(Status.UNDECIDED, evidence={"rule": "stopped before it began"})
    return TrialResult(task.trial.id, Outcome.STOPPED, 0, verdict, task.thresholds.model_dump(mode="json"))
