"""A real PostgreSQL of one's own for a while, from the programs of Debian's package `postgresql`."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

PROGRAMS = Path("/usr/lib/postgresql")
HOW_TO_GET_IT = "no PostgreSQL under /usr/lib/postgresql: `apt-get install postgresql` brings it"
PASSWORD = "secret word"


@contextmanager
def running() -> Iterator[str]:
    """A cluster on loopback, without fsync; yields MLflow's URI of it.

    Root cannot start one, so as root it is run as the user postgres, who may not read other people's folders.

    Raises:
        FileNotFoundError: if the package is not installed; it says how to get it.
    """
    versions = sorted(PROGRAMS.glob("*/bin"), key=lambda place: float(place.parent.name))
    if not versions:
        raise FileNotFoundError(HOW_TO_GET_IT)
    folder = Path(tempfile.mkdtemp(prefix="keel-lab-pg-"))
    user = "postgres" if os.geteuid() == 0 else None
    if user is not None:
        shutil.chown(folder, user)

    def run(program: str, *words: str) -> None:
        command = [str(versions[-1] / program), *words]
        subprocess.run(command, check=True, user=user, cwd=folder, stdout=subprocess.DEVNULL)

    port = _free_port()
    (folder / "password").write_text(PASSWORD)
    run("initdb", "-D", f"{folder}/data", "-U", "lab", "--auth=scram-sha-256", f"--pwfile={folder}/password")
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
    run("pg_ctl", "-D", f"{folder}/data", "-w", "-t", "120", "-l", f"{folder}/log", "-o", options, "start")
    try:
        yield f"postgresql://lab:{quote(PASSWORD)}@127.0.0.1:{port}/postgres"
    finally:
        run("pg_ctl", "-D", f"{folder}/data", "-w", "-m", "fast", "stop")
        shutil.rmtree(folder)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
