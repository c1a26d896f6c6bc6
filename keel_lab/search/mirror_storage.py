"""The Optuna storage that a search is mirrored in: which one, how it is opened, and why it cannot be, in words.

No password of its URL is in anything that is said or raised here.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keel_lab.errors import KeelLabError, UsageError
from keel_lab.track.destination import shown
from keel_lab.track.reason import ELSEWHERE, reason

if TYPE_CHECKING:
    from sqlalchemy import URL

VARIABLE = "KEEL_LAB_OPTUNA"
OFF = "off"
JOURNAL = "journal:"
CONNECT_SECONDS = 10
_DATABASES = ("sqlite", "postgresql", "mysql")
_CONNECT_TIMEOUT = ("psycopg", "psycopg2", "pymysql", "mysqldb")  # drivers that know `connect_timeout`


def mirror_url(file: Path | None, tracking: str | None = None) -> str | None:
    """Where the studies are mirrored: KEEL_LAB_OPTUNA, else SQLite in a local `file`; None for nowhere.

    Args:
        file: in a local storage root; None if the root is remote.
        tracking: where MLflow's runs go.

    Raises:
        UsageError: if the variable holds nothing that Optuna could write to, or MLflow's own database.
    """
    given = os.environ.get(VARIABLE)
    if not given:
        return None if file is None else f"sqlite:///{file}"
    scheme, _, rest = given.partition(":")
    if given != OFF and not (scheme.partition("+")[0] in _DATABASES and rest.startswith("//")):
        if not given.startswith(JOURNAL) or given == JOURNAL:
            raise UsageError(
                f"{VARIABLE}: found {shown(given)!r}; allowed are sqlite:///FILE, "
                f"postgresql://USER:PASSWORD@HOST/NAME, mysql://..., {JOURNAL}FILE, and {OFF}"
            )
    elif tracking is not None and _database(given) == _database(tracking):
        raise UsageError(
            f"{VARIABLE}: found {shown(given)!r}, where MLflow keeps its runs; Optuna and MLflow cannot share "
            "a database: name another one on the same server (createdb makes it), or another file"
        )
    return None if given == OFF else given


def open_storage(url: str) -> Any:
    """Opens, and makes Optuna's tables if they are not there.

    Raises:
        Exception: whatever a database says; `why` has words for it.
    """
    import optuna

    if url.startswith(JOURNAL):
        from optuna.storages import journal

        return optuna.storages.JournalStorage(journal.JournalFileBackend(url.removeprefix(JOURNAL)))
    from sqlalchemy import make_url

    parts = make_url(url)
    known = parts.get_backend_name() != "sqlite" and parts.get_driver_name() in _CONNECT_TIMEOUT
    connect = {"connect_timeout": CONNECT_SECONDS} if known and "connect_timeout" not in parts.query else {}
    _refuse_anothers_tables(parts, connect)
    return optuna.storages.RDBStorage(url, engine_kwargs={"connect_args": connect, "pool_logging_name": "keel_lab"})


def close_storage(storage: Any) -> None:
    """Gives the connections back."""
    if engine := getattr(storage, "engine", None):
        storage.remove_session()
        engine.dispose()


def why(error: BaseException, url: str) -> str:
    """Why a storage does not do as asked and what to do about it, in some words of a sentence."""
    from optuna.exceptions import StorageInternalError

    while isinstance(error, StorageInternalError) and error.__cause__ is not None:
        error = error.__cause__  # its own message says nothing
    return reason(error, url).replace(ELSEWHERE, f"name another place with {VARIABLE}")


def _refuse_anothers_tables(parts: URL, connect: dict[str, Any]) -> None:
    """Optuna's tables beside those of a program that also counts revisions by Alembic would break either one."""
    import sqlalchemy

    engine = sqlalchemy.create_engine(parts, connect_args=connect, poolclass=sqlalchemy.NullPool)
    tables = set(sqlalchemy.inspect(engine).get_table_names())
    if "alembic_version" in tables and "version_info" not in tables:
        raise KeelLabError(
            "another program's tables are in it, as MLflow's; Optuna needs a database of its own (createdb makes it)"
        )


def _database(url: str) -> tuple[str, ...]:
    """What tells one database from another, whatever the driver and the user; a file by its absolute path."""
    family = re.match(r"\w*", url)
    assert family is not None
    if family[0] == "sqlite":
        return ("sqlite", str(Path(url.partition(":///")[2]).absolute()))
    place = url.partition("://")[2].rpartition("@")[2].partition("?")[0]
    return (family[0], place.rstrip("/").replace(":5432/", "/").replace(":3306/", "/"))  # the usual ports
