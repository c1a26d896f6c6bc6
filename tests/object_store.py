"""An S3-compatible store for tests: moto's server, in a process of its own.

`python -m tests.object_store HOST PORT BUCKET` serves until it is ended and makes the bucket first.
"""

from __future__ import annotations

import logging
import sys
import threading

KEYS = {
    "AWS_ACCESS_KEY_ID": "keel",
    "AWS_SECRET_ACCESS_KEY": "lab",
    "AWS_EC2_METADATA_DISABLED": "true",  # or a client without keys asks the cloud it takes itself to be in
    "AWS_REGION": "us-east-1",
}


def uri_of(host: str, port: int, bucket: str, path: str) -> str:
    """The storage root there."""
    return f"s3://{bucket}/{path}?endpoint_override={host}:{port}&scheme=http&region=us-east-1"


def serve(host: str, port: int, bucket: str) -> tuple[str, int]:
    """Starts a server in a thread; port 0 takes a free one."""
    import boto3
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address=host, port=port, verbose=False)
    server.start()
    there: tuple[str, int] = server.get_host_and_port()
    client = boto3.client(
        "s3", endpoint_url=f"http://{there[0]}:{there[1]}", region_name="us-east-1",
        aws_access_key_id="keel", aws_secret_access_key="lab",
    )  # fmt: skip
    client.create_bucket(Bucket=bucket)
    return there


if __name__ == "__main__":
    _, port_there = serve(sys.argv[1], int(sys.argv[2]), sys.argv[3])
    sys.stdout.write(f"{port_there}\n")
    sys.stdout.flush()
    threading.Event().wait()
