"""A real PostgreSQL of one's own, from the programs of Debian's package `postgresql`; it can be stopped and killed."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

PROGRAMS = Path("/usr/lib/postgresql")
HOW_TO_GET_IT = "no PostgreSQL under /usr/lib/postgresql: `apt-get install postgresql` brings it"
USER, PASSWORD = "lab", "secret word"
QUOTED = "secret%20word"


class PostgresServer:
    """A cluster on loopback, without fsync.

    Root cannot start one: then it is run as the user postgres, who may not read other people's folders.

    Raises:
        FileNotFoundError: if the package is not installed; it says how to get it.
    """

    def __init__(self) -> None:
        versions = sorted(PROGRAMS.glob("*/bin"), key=lambda place: float(place.parent.name))
        if not versions:
            raise FileNotFoundError(HOW_TO_GET_IT)
        self._programs = versions[-1]
        self._user = "postgres" if os.geteuid() == 0 else None
        self.folder = Path(tempfile.mkdtemp(prefix="keel-lab-pg-"))
        if self._user is not None:
            shutil.chown(self.folder, self._user)
        self.port = _free_port()

    def __enter__(self) -> Self:
        (self.folder / "password").write_text(PASSWORD)
        words = ["-U", USER, "--auth=scram-sha-256", f"--pwfile={self.folder}/password"]
        self._run("initdb", "-D", f"{self.folder}/data", *words)
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        if (self.folder / "data" / "postmaster.pid").exists():
            self.stop()
        shutil.rmtree(self.folder)

    def start(self) -> None:
        """Starts it and waits until it answers."""
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self.folder} -c fsync=off"
        self._control("-t", "120", "-l", f"{self.folder}/log", "-o", options, "start")

    def stop(self) -> None:
        """Ends it at once, with every connection."""
        self._control("-m", "immediate", "stop")

    def signal(self, number: signal.Signals) -> None:
        """To the process that accepts connections: one that is stopped leaves whoever connects without an answer."""
        os.kill(int((self.folder / "data" / "postmaster.pid").read_text().split()[0]), number)

    def url(self, database: str, user: str = USER) -> str:
        """As users write it, password included."""
        return f"postgresql://{user}:{QUOTED}@127.0.0.1:{self.port}/{database}"

    def say(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Runs a statement as the superuser."""
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement)  # type: ignore[call-overload]
            return [] if cursor.description is None else cursor.fetchall()

    def _control(self, *words: str) -> None:
        self._run("pg_ctl", "-D", f"{self.folder}/data", "-w", *words)

    def _run(self, program: str, *words: str) -> None:
        command = [str(self._programs / program), *words]
        subprocess.run(command, check=True, user=self._user, cwd=self.folder, stdout=subprocess.DEVNULL)


@contextmanager
def running() -> Iterator[str]:
    """One for a while; yields MLflow's URI of it."""
    with PostgresServer() as server:
        yield server.url("postgres")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
