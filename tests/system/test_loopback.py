"""A local Ray is reachable from this machine only (needs `ss`, of Debian's iproute2)."""

from __future__ import annotations

import ipaddress
import os
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

from benchmarks.chaos_faults import descendants
from keel_lab.schedule.ray_executor import RayExecutor
from keel_lab.settings import GridSchedule, ModelSettings, Resources, TrainSettings
from keel_lab.store.root import Root
from keel_lab.trial import DataRef, Trial
from tests.toy_sweep import MEMORY, toy_task, toy_trial
from trainers.data import corpus


def test_every_listening_socket_of_ray_is_on_loopback_and_asks_for_a_token(tmp_path):
    executor = RayExecutor(toy_trial().resources)
    try:
        executor.submit(toy_task(toy_trial(), Root.open(tmp_path / "store")))
        while executor.next_done(0.5) is None:  # a worker is up, with its port
            pass
        own = listening()
        raylets = [pid for pid in descendants(os.getpid()) if b"/raylet\0" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        environment = Path(f"/proc/{raylets[0]}/environ").read_bytes()
    finally:
        executor.close()
    assert len(own) >= 4
    assert strangers_reach(own) == []
    assert b"RAY_AUTH_MODE=token" in environment
    assert b"RAY_AUTH_TOKEN=" in environment


def test_so_is_every_socket_by_which_the_workers_of_one_trial_find_each_other(tmp_path):
    (tmp_path / "a.txt").write_text("".join(f"{n} bottles of beer on the wall.\n" for n in range(600)))
    section = {"text": "*.txt", "tokenizer": "bytes"}
    facts = corpus.facts(section, tmp_path)
    corpus.prepare(section, tmp_path, facts, tmp_path / "store" / "data" / facts.fingerprint)
    trial = Trial(
        architecture="pre_ln",
        options={},
        blocks=2,
        model=ModelSettings(width=16, heads=2, kv_heads=1, ffn_width=32, context=16),
        data=DataRef(fingerprint=facts.fingerprint, tokenizer="bytes", vocab=256),
        train=TrainSettings(batch_size=8),
        schedule=GridSchedule(lr=1e-3, steps=300, warmup_steps=6, validation_sequences=8),
        resources=Resources(workers=2, strategy="ddp", memory=MEMORY),
    )
    executor = RayExecutor(trial.resources)
    own, ended = set(), None
    try:
        executor.submit(toy_task(trial, Root.open(tmp_path / "store")))
        while ended is None:
            ended = executor.next_done(0.2)
            if any(item.step for item in executor.progress()):  # the group is together
                own |= set(listening())
    finally:
        executor.close()
    assert ended.result is not None
    ranks = {pid for line in own for pid in pids(line) if "RayTrainWorker" in line or "ray::" in line}
    assert len(ranks) >= 2, own
    assert strangers_reach(own) == []


def listening() -> list[str]:
    """The lines of `ss` about sockets on which this process and those below it listen."""
    processes = descendants(os.getpid()) | {os.getpid()}
    listing = subprocess.run(["ss", "-H", "-tulnp"], capture_output=True, text=True, check=True).stdout
    return [line for line in listing.splitlines() if processes & pids(line)]


def pids(line: str) -> set[int]:
    """The processes of such a line."""
    return {int(pid) for pid in re.findall(r"pid=(\d+)", line)}


def strangers_reach(lines: Iterable[str]) -> list[str]:
    """Those of the lines that are of sockets on more than loopback."""
    addresses = {line: line.split()[4].rpartition(":")[0].strip("[]").split("%")[0] for line in lines}
    return [
        line
        for line, address in addresses.items()
        if address == "*" or not ipaddress.ip_address(address.removeprefix("::ffff:")).is_loopback
    ]
