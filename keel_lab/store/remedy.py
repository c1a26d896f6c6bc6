"""What to do about an object store's error: its own words name a request and a code, seldom the mistake."""

from __future__ import annotations

_REMEDIES = (  # words of the error, and what they mean
    (
        (
            "ACCESS_DENIED",
            "INVALID_ACCESS_KEY_ID",
            "SIGNATURE_DOES_NOT_MATCH",
            "InvalidAccessKeyId",
            "EXPIRED",
            "HTTP 403",
        ),
        "it does not accept the credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (or a profile of "
        "~/.aws/credentials) to ones that may list, read and write there, on every node that runs trials as well",
    ),
    (
        ("NO_SUCH_BUCKET",),
        "create the bucket, or correct its name",
    ),
    (
        ("NETWORK_CONNECTION", "curlCode"),
        "nobody answers there: correct the endpoint (`?endpoint_override=HOST:PORT&scheme=http` in the URI, or "
        "AWS_ENDPOINT_URL), or wait until it can be reached from here",
    ),
)


def remedy_of(error: BaseException) -> str | None:
    """What to do, in a clause; None for an error that is not of this kind."""
    text = str(error)
    return next((remedy for words, remedy in _REMEDIES if any(word in text for word in words)), None)
