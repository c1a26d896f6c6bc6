"""Whether MLflow can be written to at all, asked before anything runs and as cheaply as the place allows.

A server that is away is no obstacle: what it misses is delivered later. One that lets nobody in, a database of another
schema or a file that may not be written stays like that until somebody does something about it, so it is said at once.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import urllib.error
import urllib.request
from base64 import b64encode
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

from keel_lab.errors import UsageError
from keel_lab.track.destination import shown
from keel_lab.track.reason import ELSEWHERE, NOT_WRITABLE, Reason, understood

SECONDS = 5.0  # for a server's answer; one that takes longer is away
QUESTION = "/api/2.0/mlflow/experiments/get-by-name?experiment_name="
HEADER = b"SQLite format 3\x00"


def refuse_unusable(uri: str, experiment: str) -> None:
    """Returns if the place can be written to, or is away for now.

    Args:
        uri: as from `destination.tracking_uri`.
        experiment: that is going to be written.

    Raises:
        UsageError: if nothing could ever be written there as things are; it says what to do.
    """
    family = uri.partition("://")[0].partition("+")[0]
    if family == "sqlite":
        why = _file(Path(uri.partition("://")[2][1:]), uri)
    elif family in ("http", "https"):
        why = None if _is_mlflow(uri, experiment) else _server(uri, experiment)
    else:
        why = _database(uri)
    if why is not None and why.hopeless:
        raise UsageError(f"MLflow at {shown(uri)}: {why.text}; --tracking off does without it")


def _file(path: Path, uri: str) -> Reason | None:
    nearest = next(place for place in (path, *path.parents) if place.exists())
    folder = path.parent if nearest == path else nearest
    if not (folder.is_dir() and os.access(folder, os.W_OK)) or path.is_dir():
        return Reason(f"{folder} is no folder in which files may be written: allow it, or {ELSEWHERE}", hopeless=True)
    if nearest != path:
        return None
    if not os.access(path, os.W_OK):
        return Reason(NOT_WRITABLE, hopeless=True)
    try:
        with path.open("rb") as stream:
            if stream.read(len(HEADER)) not in (HEADER, b""):
                return Reason(f"it is no SQLite database: {ELSEWHERE}", hopeless=True)
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=rw", uri=True, timeout=0.0)) as database:
            if (why := _of_another_schema(_revision(database), uri)) is not None:
                return why
            database.execute("BEGIN IMMEDIATE")
            database.execute("ROLLBACK")
    except (OSError, sqlite3.Error) as error:
        return understood(error, uri)
    return None


def _revision(database: sqlite3.Connection) -> str | None:
    """The schema of MLflow's tables; None if there are none yet, and '' for those older than schemas had names."""
    tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if "alembic_version" in tables:
        found = database.execute("SELECT version_num FROM alembic_version").fetchone()
        return str(found[0]) if found else None
    return "" if {"experiments", "runs"} <= tables else None


def _of_another_schema(revision: str | None, uri: str) -> Reason | None:
    """Told by the names of MLflow's migrations, because asking MLflow takes seconds."""
    if revision is None:
        return None
    package = find_spec("mlflow")
    places = list(package.submodule_search_locations or ()) if package is not None else []
    texts = [file.read_text() for place in places for file in Path(place).glob("store/db_migrations/versions/*.py")]
    known = {found[1] for text in texts if (found := re.search(r"^revision = ['\"](\w+)['\"]", text, re.MULTILINE))}
    older = {found for text in texts for found in re.findall(r"^down_revision = ['\"](\w+)['\"]", text, re.MULTILINE)}
    if not known or revision in known - older:
        return None
    if revision and revision not in known:
        newer = f"its tables are those of another MLflow (schema {revision}), most likely a newer one"
        return Reason(f"{newer}: install that MLflow, or {ELSEWHERE}", hopeless=True)
    upgrade = f"back it up and run `mlflow db upgrade {shown(uri)}`, or {ELSEWHERE}"
    return Reason(f"its tables are those of an older MLflow (schema {revision or 'unnamed'}): {upgrade}", hopeless=True)


def _is_mlflow(uri: str, experiment: str) -> bool:
    """Whether the server answers as MLflow does, or is away; False leaves it to MLflow's client to find out."""
    request = urllib.request.Request(f"{uri}{QUESTION}{quote(experiment, safe='')}", headers=_credentials())
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return "experiment" in json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code >= 500 or error.code == 429:
            return True
        try:
            return error.code == 404 and "error_code" in json.load(error)
        except ValueError:
            return False
    except urllib.error.URLError as error:
        return not isinstance(error.reason, OSError) or type(error.reason).__name__ != "SSLCertVerificationError"
    except OSError:
        return True
    except ValueError:
        return False


def _credentials() -> dict[str, str]:
    """As MLflow's client takes them from the environment."""
    user, password = (os.environ.get(f"MLFLOW_TRACKING_{name}", "") for name in ("USERNAME", "PASSWORD"))
    if user and password:
        return {"Authorization": f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"}
    token = os.environ.get("MLFLOW_TRACKING_TOKEN")
    return {"Authorization": f"Bearer {token}"} if token else {}


def _server(uri: str, experiment: str) -> Reason | None:
    """What MLflow's client makes of the server, which knows every way of proving who one is."""
    from keel_lab.track.writer import import_mlflow

    import_mlflow()
    from mlflow.tracking import MlflowClient

    try:
        found = MlflowClient(tracking_uri=uri).get_experiment_by_name(experiment)
    except Exception as error:  # noqa: BLE001 - MLflow raises anything; most of it means that the server is away
        return understood(error, uri)
    if found is not None and not found.experiment_id:
        return Reason(
            "something answers there, but no MLflow server: correct --tracking or MLFLOW_TRACKING_URI", hopeless=True
        )
    return None


def _database(uri: str) -> Reason | None:
    import sqlalchemy

    within = {"connect_timeout": int(SECONDS)} if uri.startswith(("postgresql", "mysql")) else {}
    try:
        engine = sqlalchemy.create_engine(uri, connect_args=within)
        with engine.connect() as connection:
            tables = set(sqlalchemy.inspect(connection).get_table_names())
            if "alembic_version" not in tables:
                return _of_another_schema("" if {"experiments", "runs"} <= tables else None, uri)
            found = connection.execute(sqlalchemy.text("SELECT version_num FROM alembic_version")).scalar()
            if (why := _of_another_schema(found and str(found), uri)) is not None:
                return why
            connection.execute(sqlalchemy.text("UPDATE runs SET name = name WHERE run_uuid = ''"))
            connection.rollback()
    except Exception as error:  # noqa: BLE001 - drivers raise anything; most of it means that the server is away
        return understood(error, uri)
    return None
