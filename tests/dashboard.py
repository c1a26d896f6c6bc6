"""What optuna-dashboard shows, asked over its web interface, without a socket."""

from __future__ import annotations

import io
import json
import sys
from typing import Any

import optuna_dashboard


def states(url: str) -> list[str]:
    """The states of the trials that it shows of the first study in a storage; none if there is no study."""
    app = optuna_dashboard.wsgi(url)
    studies = _get(app, "/api/studies")["study_summaries"]
    if not studies:
        return []
    found = _get(app, f"/api/studies/{studies[0]['study_id']}?after=0")["trials"]
    return [trial["state"] for trial in found]


def _get(app: Any, address: str) -> dict[str, Any]:
    path, _, query = address.partition("?")
    environ = {
        "REQUEST_METHOD": "GET",
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "80",
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(),
        "CONTENT_LENGTH": "0",
        "wsgi.errors": sys.stderr,
    }
    heads: list[str] = []
    body = b"".join(app(environ, lambda status, headers, error=None: heads.append(status)))
    assert heads[0].startswith("200"), (heads, body[:300])
    found: dict[str, Any] = json.loads(body)
    return found
