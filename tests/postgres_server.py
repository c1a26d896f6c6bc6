"""A real PostgreSQL (Debian's) on loopback for tests, which can be stopped, killed and started again."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Self

import psycopg

from tests.mlflow_server import free_port

USER, PASSWORD = "lab", "secret word"
QUOTED = "secret%20word"


class PostgresServer:
    """A cluster of its own, run as the user postgres, who may not read pytest's folders."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="keel-lab-pg-"))
        shutil.chown(self.folder, "postgres")
        self.port = free_port()

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
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement)  # type: ignore[call-overload]
            return [] if cursor.description is None else cursor.fetchall()

    def _control(self, *words: str) -> None:
        self._run("pg_ctl", "-D", f"{self.folder}/data", "-w", *words)

    def _run(self, program: str, *words: str) -> None:
        (programs,) = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1:]
        command = [str(programs / program), *words]
        subprocess.run(command, check=True, user="postgres", cwd=self.folder, stdout=subprocess.DEVNULL)
