"""A local Ray is reachable from this machine only (needs `ss`, of Debian's iproute2)."""

from __future__ import annotations

import ipaddress
import os
import re
import subprocess
from pathlib import Path

from benchmarks.chaos_faults import descendants
from keel_lab.schedule.ray_executor import RayExecutor
from keel_lab.store.root import Root
from tests.toy_sweep import toy_task, toy_trial


def test_every_listening_socket_of_ray_is_on_loopback_and_asks_for_a_token(tmp_path):
    executor = RayExecutor(toy_trial().resources)
    try:
        executor.submit(toy_task(toy_trial(), Root.open(tmp_path / "store")))
        while executor.next_done(0.5) is None:  # a worker is up, with its port
            pass
        processes = descendants(os.getpid()) | {os.getpid()}
        listing = subprocess.run(["ss", "-H", "-tulnp"], capture_output=True, text=True, check=True).stdout
        raylets = [pid for pid in processes if b"/raylet\0" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        environment = Path(f"/proc/{raylets[0]}/environ").read_bytes()
    finally:
        executor.close()
    own = [line for line in listing.splitlines() if processes & {int(pid) for pid in re.findall(r"pid=(\d+)", line)}]
    assert len(own) >= 4, f"Ray's sockets were not found in:\n{listing}"
    for line in own:
        address = line.split()[4].rpartition(":")[0].strip("[]").split("%")[0]
        assert ipaddress.ip_address(address.removeprefix("::ffff:")).is_loopback, line
    assert b"RAY_AUTH_MODE=token" in environment
    assert b"RAY_AUTH_TOKEN=" in environment
