"""The images of docker-compose.yml, each as a program of this machine: the same software, installed another way."""

from __future__ import annotations

import grp
import os
import pwd
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
POSTGRES = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1:]

# What containers see of this machine, all of it read-only.
PROGRAMS = tuple(
    dict.fromkeys(
        Path(place)
        for place in ("/usr", "/etc", "/bin", "/lib", "/lib64", "/sbin", sys.base_prefix, sys.prefix, REPOSITORY)
        if Path(place).exists()
    )
)

# What the image's entry point does, as its page documents it: a first start makes user, password and database.
START_POSTGRES = """
set -e
export PGDATA=/var/lib/postgresql/data
if [ ! -s $PGDATA/PG_VERSION ]; then
    printf %s "$POSTGRES_PASSWORD" >/tmp/password
    initdb --username="$POSTGRES_USER" --pwfile=/tmp/password --auth-local=trust --auth-host=scram-sha-256
    rm /tmp/password
    echo "host all all all scram-sha-256" >>$PGDATA/pg_hba.conf
    echo "CREATE DATABASE $POSTGRES_DB" | postgres --single postgres
fi
exec postgres -c "listen_addresses=*" "$@"
"""

# The same of the object store's image, which adds these to the mode `server`.
START_SEAWEEDFS = """
[ "$1" = server ] && shift
exec weed server -dir=/data -volume.max=0 -master.volumePreallocate -master.volumeSizeLimitMB=1024 "$@"
"""


@dataclass(frozen=True)
class Image:
    """What an image brings along.

    Attributes:
        user: name of the user whom its processes run as.
        owner: the same as numbers, user and group.
        folder: its home and working directory.
        entrypoint: stands before the service's command.
        command: if the service has none.
        environment: under the service's.
        writable: folders besides /tmp that belong to the user.
    """

    user: str
    owner: tuple[int, int]
    folder: str
    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    writable: Sequence[str] = ()


def image_of(name: str) -> Image:
    """What stands for the image with this name and tag."""
    return _IMAGES[name.partition(":")[0]]


def docker_environment() -> dict[str, str]:
    """ENV of the Dockerfile's last stage, with this environment in the place of the image's."""
    stage = (REPOSITORY / "Dockerfile").read_text().replace("\\\n", " ").rpartition("\nFROM ")[2]
    words = [word for line in stage.splitlines() if line.startswith("ENV ") for word in line.split()[1:]]
    variables = dict(word.split("=", 1) for word in words)
    path = variables["PATH"].replace("/opt/keel-lab/bin", f"{sys.prefix}/bin").replace("$PATH", "/usr/bin:/bin")
    return {**variables, "PATH": path, "PYTHONPATH": str(REPOSITORY), "HOME": "/home/keel"}


def _postgres() -> Image:
    account, group = pwd.getpwnam("postgres"), grp.getgrnam("postgres")
    return Image(
        "postgres",
        (account.pw_uid, group.gr_gid),
        "/",
        ("bash", "-c", START_POSTGRES, "entrypoint"),
        environment={"PATH": os.pathsep.join([*map(str, POSTGRES), "/usr/bin", "/bin"]), "LANG": "C.UTF-8"},
        writable=("/run/postgresql", "/var/run/postgresql"),
    )


_IMAGES = {
    "postgres": _postgres(),
    "chrislusf/seaweedfs": Image(
        "seaweed",
        (1000, 1000),
        "/",
        ("bash", "-c", START_SEAWEEDFS, "entrypoint"),
        environment={"PATH": f"{sys.prefix}/bin:/usr/bin:/bin"},
    ),
    "keel-lab": Image("keel", (10001, 10001), "/home/keel", environment=docker_environment(), writable=("/home/keel",)),
}
