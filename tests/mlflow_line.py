"""A reverse proxy in front of a real `mlflow server`: a line with faults, or a gate that asks for a token."""

from __future__ import annotations

import http.client
import itertools
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.mlflow_server import Server


class Line:
    """Hands requests on.

    Attributes:
        fault: what becomes of the n-th request: `slow`, `500`, `lost` (done, and nobody hears of it), or nothing.
        token: that requests must bear, if there is one; others are answered with 401.
        count: of the requests.
    """

    def __init__(self, server: Server) -> None:
        self.fault: Callable[[int], str | None] = lambda number: None
        self.token: str | None = None
        self.count = itertools.count(1)
        self.listener = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self, server))
        self.uri = f"http://127.0.0.1:{self.listener.server_port}"
        threading.Thread(target=self.listener.serve_forever, daemon=True).start()

    def close(self) -> None:
        """No request is answered any more."""
        self.listener.shutdown()
        self.listener.server_close()


def _handler(line: Line, server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fault = line.fault(next(line.count))
            if line.token is not None and self.headers.get("Authorization") != f"Bearer {line.token}":
                self.answer(401, [("WWW-Authenticate", "Bearer")], b"who are you?")
                return
            status, headers, content = 500, [], b"<html>Internal Server Error</html>"
            if fault == "slow":
                time.sleep(0.3)
            if fault != "500":
                behind = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
                sent = {key: value for key, value in self.headers.items() if key.lower() != "host"}
                behind.request(self.command, self.path, body, sent)
                answer = behind.getresponse()
                got = answer.read()
                if fault != "lost":
                    status, content = answer.status, got
                    headers = [("Content-Type", answer.headers.get("Content-Type", "text/plain"))]
            self.answer(status, headers, content)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = forward

        def answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
            self.send_response(status)
            for name, value in [*headers, ("Content-Length", str(len(content)))]:
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *words: object) -> None:
            pass

    return Handler
