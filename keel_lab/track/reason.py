"""Why a delivery failed, in some words of a sentence: the root of a chain of library errors, without secrets."""

from __future__ import annotations

import re
from urllib.parse import unquote

from keel_lab.track.destination import password

LIMIT = 300
NO_ANSWER = "no answer in time"  # a server that is slow, as at its first request, or a line that is cut


def reason(error: BaseException, uri: str) -> str:
    """The operating system's own words if it spoke, else the first line of the message; no password of `uri` in it."""
    link: BaseException | None = error
    while link is not None:
        if isinstance(link, TimeoutError) or type(link).__name__ in ("ReadTimeout", "ConnectTimeout"):
            return NO_ANSWER
        if isinstance(link, OSError) and isinstance(link.errno, int) and link.strerror:
            place = f": {link.filename}" if link.filename else ""
            return f"{link.strerror.lower()}{place}"
        link = link.__cause__ or link.__context__
    if refused := re.search(r"too many (\d+) error responses", str(error)):
        return f"it answers with HTTP status {refused[1]}"
    lines = str(error).strip().splitlines()
    words = lines[0] if lines else type(error).__name__
    if secret := password(uri):
        words = words.replace(secret, "***").replace(unquote(secret), "***")
    return words if len(words) <= LIMIT else f"{words[:LIMIT]}..."
