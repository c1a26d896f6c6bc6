"""Where a sweep is mirrored: which tracking URI, where its artifacts lie, and how a person looks at it."""

from __future__ import annotations

import difflib
import os
import re
import shlex
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from keel_lab.errors import UsageError
from keel_lab.track.views import CURVES

OFF = "off"
URI_VARIABLE = "MLFLOW_TRACKING_URI"
NO_URI_NOTE = (
    f"tracking is off: the storage root is remote and no tracking URI was given; set {URI_VARIABLE} or --tracking URI"
)
_DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
_SERVERS = ("http", "https")
_PASSWORD = re.compile(r"([?&](?:sslpassword|password|passwd|pwd)=)([^&]*)", re.IGNORECASE)  # in a query
WORKFLOW = "machine_learning"  # the other half of MLflow's pages is for language-model applications
_ALLOWED = "allowed are http(s)://HOST:PORT, sqlite:///FILE, postgresql://, mysql://, mssql:// (and --tracking off)"


def tracking_uri(option: str | None, root: str) -> str | None:
    """The tracking URI of a sweep: `option`, else MLFLOW_TRACKING_URI, else SQLite under a local storage root.

    Args:
        option: as on the command line; `off` turns tracking off; None if not given.
        root: path or URI of the storage root.

    Returns:
        None if tracking is off: asked for, or because the root is remote and no URI was given (say `NO_URI_NOTE`).

    Raises:
        UsageError: if the URI is none that MLflow could write to.
    """
    if option is not None:
        return None if option == OFF else checked_uri(option, "--tracking")
    if from_environment := os.environ.get(URI_VARIABLE):
        return checked_uri(from_environment, URI_VARIABLE)
    folder = local_folder(root)
    return None if folder is None else checked_uri(f"sqlite:///{folder / 'mlflow.db'}", "storage root")


def checked_uri(uri: str, place: str = "tracking URI") -> str:
    """The URI with a relative SQLite path made absolute, after checks that need no MLflow (importing it takes seconds).

    Raises:
        UsageError: naming `place`, what was found and what is allowed.
    """
    scheme, separator, rest = uri.partition("://")
    family = scheme.split("+")[0]
    if not separator or family not in (*_DATABASES, *_SERVERS):
        raise UsageError(f"{place}: found {shown(uri)!r}; {_ALLOWED}{_hint(uri, family if separator else '')}")
    if family == "sqlite":
        return _checked_sqlite(uri, scheme, rest, place)
    if not urlsplit(uri).hostname:
        raise UsageError(f"{place}: found {shown(uri)!r}, which names no host; {_ALLOWED}")
    return uri.rstrip("/") if family in _SERVERS else uri


def _hint(uri: str, family: str) -> str:
    if near := difflib.get_close_matches(family, (*_DATABASES, *_SERVERS), n=1):
        return f" (did you mean {near[0]}?)"
    if re.fullmatch(r"[\w.-]+:\d+(/.*)?", uri):
        return f" (did you mean http://{uri}?)"
    if not family or family == "file":
        path = Path(unquote(urlsplit(uri).path if family else uri)).absolute()
        if path.suffix in (".db", ".sqlite", ".sqlite3"):
            return f" (did you mean sqlite:///{path}?)"
        return f" (MLflow no longer writes to folders; sqlite:///{path / 'mlflow.db'} would keep it there)"
    return ""


def _checked_sqlite(uri: str, scheme: str, rest: str, place: str) -> str:
    path = rest[1:]
    if not rest.startswith("/") or not path or path == ":memory:" or path.endswith("/"):
        raise UsageError(f"{place}: found {shown(uri)!r}, which names no file; {_ALLOWED}")
    if set(path) & set("?#%"):
        raise UsageError(f"{place}: found {shown(uri)!r}; MLflow cannot open an SQLite file with ?, # or % in its path")
    return f"{scheme}:///{Path(path).absolute()}"


def local_folder(root: str) -> Path | None:
    """The absolute folder of a local storage root (a path or file://), None if the root is remote."""
    if "://" not in root:
        return Path(root).absolute()
    parts = urlsplit(root)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def artifact_location(uri: str, root: str) -> str | None:
    """Where a new experiment keeps its artifacts: a server decides itself (None), a database keeps them in storage."""
    if uri.split("://")[0] in _SERVERS:
        return None
    folder = local_folder(root)
    return within(root, "mlartifacts") if folder is None else (folder / "mlartifacts").as_uri()


def within(root: str, path: str) -> str:
    """The address of what lies at `path` in a storage root, without keys or how to reach it (`?endpoint_override`)."""
    place = root.partition("?")[0].rstrip("/") if "://" in root else root.rstrip("/")
    return f"{re.sub(r'(?<=://)[^/@]*@', '', place)}/{path}"


def object_store_endpoint(root: str) -> str | None:
    """Where a remote root's S3 answers if that is not Amazon's, as MLflow's client wants it: `http://HOST:PORT`."""
    if not root.startswith("s3://"):
        return None
    asked = parse_qs(urlsplit(root).query)
    host, scheme = asked.get("endpoint_override", [""])[0], asked.get("scheme", ["https"])[0]
    return host if not host or "://" in host else f"{scheme}://{host}"


def shown(uri: str) -> str:
    """The URI as it may be printed or stored: without a password, even one whose / or @ is not escaped."""
    uri = _PASSWORD.sub(r"\1***", uri)
    if uri.split("://")[0].partition("+")[0] in _DATABASES:
        return re.sub(r"(?<=://)([^:/@]*):.*@", r"\1:***@", uri)
    parts = urlsplit(uri)
    if parts.password is None:
        return uri
    return parts._replace(netloc=f"{parts.username}:***@{parts.netloc.rpartition('@')[2]}").geturl()


def password(uri: str) -> str:
    """What `shown` leaves out; "" if there is none."""
    if found := _PASSWORD.search(uri):
        return found[2]
    if uri.split("://")[0].partition("+")[0] in _DATABASES:
        between = re.search(r"://[^:/@]*:(.*)@", uri)
        return "" if between is None else between[1]
    return urlsplit(uri).password or ""


def ui_command(uri: str) -> str | None:
    """The command that shows a database in a browser; None for a server, which shows itself."""
    return None if uri.split("://")[0] in _SERVERS else f"mlflow ui --backend-store-uri {shlex.quote(shown(uri))}"


def experiment_url(uri: str, experiment_id: str, server: str = "http://127.0.0.1:5000") -> str:
    """The address of the experiment's curves, trials only; for a database, at the `server` that shows it.

    The bare page of an experiment is one for traces of language models, so the address asks for charts and our view.
    """
    base = shown(uri) if uri.split("://")[0] in _SERVERS else server
    return f"{base}/{relative_url(experiment_id, CURVES)}"


def relative_url(experiment_id: str, view: str) -> str:
    """The address of a view (`track.views`) on the server that shows the page with the link."""
    return f"#/experiments/{experiment_id}/runs?compareRunsMode=CHART&workflowType={WORKFLOW}&viewStateShareKey={view}"


def run_url(experiment_id: str, run_id: str) -> str:
    """The address of a run, likewise."""
    return f"#/experiments/{experiment_id}/runs/{run_id}?workflowType={WORKFLOW}"
