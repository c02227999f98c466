"""A proxy before a store that is reached over HTTP: answers 503, slowly, or half, at random."""

from __future__ import annotations

import http.client
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

_BUSY = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
_DROPPED = frozenset({"connection", "transfer-encoding", "keep-alive"})


@dataclass
class Faults:
    """How often each fault happens, as a share of requests; ``happened`` counts them."""

    busy: float = 0.0
    slow: float = 0.0
    dropped: float = 0.0
    seed: int = 1
    happened: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _random: random.Random | None = None

    def next(self) -> str:
        """Return the fault of the next request, or "none"."""
        with self._lock:
            self._random = self._random or random.Random(self.seed)
            drawn = self._random.random()
            kinds = (("busy", self.busy), ("slow", self.slow), ("dropped", self.dropped))
            for kind, share in kinds:
                if drawn < share:
                    self.happened[kind] += 1
                    return kind
                drawn -= share
            self.happened["none"] += 1
            return "none"


@contextmanager
def faulty_proxy(endpoint: str, faults: Faults) -> Iterator[str]:
    """Yield the address of a proxy before a server."""
    target = urlsplit(endpoint).netloc

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fault = faults.next()
            if fault == "busy":
                self._answer(503, [("Content-Type", "application/xml")], _BUSY)
                return
            connection = http.client.HTTPConnection(target, timeout=60)
            connection.request(self.command, self.path, body, dict(self.headers))
            answer = connection.getresponse()
            data, headers = answer.read(), answer.getheaders()
            connection.close()
            if fault == "dropped":
                self._answer(answer.status, headers, data, stop=len(data) // 2)
                self.close_connection = True
                return
            if fault == "slow":
                time.sleep(0.5)
            self._answer(answer.status, headers, data)

        def _answer(self, status: int, headers: list[tuple[str, str]], data: bytes, stop: int | None = None) -> None:
            self.send_response_only(status)
            for name, value in headers:
                if name.lower() not in (*_DROPPED, "content-length"):
                    self.send_header(name, value)
            length = {name.lower(): value for name, value in headers}.get("content-length", str(len(data)))
            self.send_header("Content-Length", length if self.command == "HEAD" else str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data if stop is None else data[:stop])

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _forward

        def log_message(self, format: str, *arguments: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
