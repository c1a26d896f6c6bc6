"""Why a delivery failed and what to do about it, in some words of a sentence: the root of a chain of library errors."""

from __future__ import annotations

import errno
import re
from typing import NamedTuple
from urllib.parse import unquote

from keel_lab.track.destination import password, shown

LIMIT = 300
NO_ANSWER = "no answer in time"  # a server that is slow, as at its first request, or a line that is cut
ELSEWHERE = "name another place with --tracking or MLFLOW_TRACKING_URI"
NOT_WRITABLE = f"it may not be written: allow it, or {ELSEWHERE}"


class Reason(NamedTuple):
    """What an error means.

    Attributes:
        text: the cause and, where it is known, the remedy.
        hopeless: whether it stays like this until somebody does something about it.
        waits: whether another try is worth it, but not at once: nothing of the thing itself was wrong.
    """

    text: str
    hopeless: bool = False
    waits: bool = False


class _Known(NamedTuple):
    """`words` (a regular expression) of an error, its cause and remedy, which may name its groups and the URI."""

    words: str
    text: str
    hopeless: bool = True
    waits: bool = False


DRIVERS = {"psycopg": '"psycopg[binary]"', "MySQLdb": "mysqlclient"}  # what pip calls a module

_FULL = "no space is left on its disk: free some"
_KNOWN = (
    _Known(
        r"error code 401 != 200|not authenticated",
        "it does not let us in (HTTP 401): set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and "
        "MLFLOW_TRACKING_PASSWORD, to what it accepts",
    ),
    _Known(
        r"Invalid Host header",
        "it does not know itself by this name (HTTP 403): start it with --allowed-hosts, or correct the name in "
        "--tracking or MLFLOW_TRACKING_URI",
    ),
    _Known(
        r"error code 403 != 200|^PERMISSION_DENIED",
        f"it forbids it (HTTP 403): ask for permission to edit there, or {ELSEWHERE}",
    ),
    _Known(
        r"endpoint /api/2.0/mlflow-artifacts\S* failed with error code 404",
        "it keeps no artifacts: start it without --no-serve-artifacts",
    ),
    _Known(
        r"endpoint /api/2.0/mlflow/\S* failed with error code (404|405|30\d) |not in a valid JSON format|"
        r"^INTERNAL_ERROR: Response: ",
        "something answers there, but no MLflow server: correct --tracking or MLFLOW_TRACKING_URI",
    ),
    _Known(r"NoSuchBucket", "the bucket of its artifacts does not exist: create it"),
    _Known(
        r"\((AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|403)\) when calling|Unable to locate credentials",
        "the object store of its artifacts refuses our keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    ),
    _Known(
        r"Could not connect to the endpoint URL",
        "the object store of its artifacts does not answer: correct MLFLOW_S3_ENDPOINT_URL, or wait until it does",
        hopeless=False,
        waits=True,
    ),
    _Known(
        r"CERTIFICATE_VERIFY_FAILED|certificate verify failed",
        "its certificate is not trusted: name the authority's file in MLFLOW_TRACKING_SERVER_CERT_PATH",
    ),
    _Known(
        r"out-of-date database schema \(found version (\w+)",
        "its tables are those of another MLflow (schema {1}): back it up and run `mlflow db upgrade {uri}`, or, if a "
        "newer MLflow wrote it, install that one",
    ),
    _Known(r"file is not a database|file is encrypted", f"it is no SQLite database: {ELSEWHERE}"),
    _Known(r"readonly database|[Pp]ermission denied for|InsufficientPrivilege|command denied", NOT_WRITABLE),
    _Known(r"unable to open database file", f"its file cannot be opened: allow it, or {ELSEWHERE}"),
    _Known(r"disk is full|No space left on device|could not extend file|DiskFull", _FULL, hopeless=False, waits=True),
    _Known(r"database is locked", "another program holds it locked", hopeless=False, waits=True),
    _Known(
        r"password authentication failed|no pg_hba.conf entry|role \"\S+\" does not exist|Access denied for user",
        "it does not accept this user and password: correct them in the URI",
    ),
    _Known(
        r"database \"\S+\" does not exist|Unknown database",
        "there is no such database: create it, or correct the URI",
    ),
)


def reason(error: BaseException, uri: str) -> str:
    """`understood`, in words only."""
    return understood(error, uri).text


def understood(error: BaseException, uri: str) -> Reason:
    """What the error means, if it is known, else the first line of its message; no password of `uri` in it."""
    link: BaseException | None = error
    while link is not None:
        if isinstance(link, TimeoutError) or type(link).__name__ in ("ReadTimeout", "ConnectTimeout"):
            return Reason(NO_ANSWER, waits=True)
        if isinstance(link, OSError) and isinstance(link.errno, int) and link.strerror:
            return _of_system(link)
        link = link.__cause__ or link.__context__
    words = str(error).strip() or type(error).__name__
    if refused := re.search(r"too many (\d+) error responses", words):
        return Reason(f"it answers with HTTP status {refused[1]}", waits=True)
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = DRIVERS.get(error.name, error.name)
        return Reason(f"the module {error.name} that it needs is not installed: pip install {package}", hopeless=True)
    for known in _KNOWN:
        if found := re.search(known.words, words):
            text = known.text.replace("{uri}", shown(uri)).replace("{1}", (found[1] or "") if found.re.groups else "")
            return Reason(text, known.hopeless, known.waits)
    return Reason(_first_line(words, uri))


def _of_system(error: OSError) -> Reason:
    """The operating system's own words."""
    place = f": {error.filename}" if error.filename else ""
    said = f"{(error.strerror or str(error)).lower()}{place}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Reason(f"{_FULL} ({said})", waits=True)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return Reason(f"{NOT_WRITABLE} ({said})", hopeless=True)
    return Reason(said)


def _first_line(words: str, uri: str) -> str:
    line = words.splitlines()[0]
    if secret := password(uri):
        line = line.replace(secret, "***").replace(unquote(secret), "***")
    return line if len(line) <= LIMIT else f"{line[:LIMIT]}..."
