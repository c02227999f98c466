"""A proxy before a store that is reached over HTTP: answers 503 or 500, slowly, or half, or breaks requests off."""

from __future__ import annotations

import http.client
import random
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol
from urllib.parse import urlsplit

_BUSY = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
_DROPPED = frozenset({"connection", "transfer-encoding", "keep-alive"})


_FAILED = b"<?xml version='1.0'?><Error><Code>InternalError</Code><Message>We had a problem.</Message></Error>"


class FaultChoice(Protocol):
    """What decides on the fault of each request."""

    def next(self, command: str, path: str) -> str:
        """Return the fault of the next request: busy, failed, slow, dropped (half an answer), cut (half a request), or
        none."""


@dataclass
class StepFaults:
    """A fault at one of the requests that change the store, by its number.

    Attributes:
        number: Which one, counted from 1.
        fault: What happens there.
        last: The number of the last one at which it happens, None for all that follow.
        act: Called before it.
        seen: The requests that changed the store, or would have.
    """

    number: int
    fault: str
    last: int | None = None
    act: Callable[[], None] = lambda: None
    seen: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def next(self, command: str, path: str) -> str:
        """Return the fault of the next request."""
        if command not in ("PUT", "POST", "DELETE"):
            return "none"
        with self._lock:
            self.seen.append(f"{command} {path}")
            number = len(self.seen)
        if number < self.number or (self.last is not None and number > self.last):
            return "none"
        if number == self.number:
            self.act()
        return self.fault


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

    def next(self, command: str, path: str) -> str:
        """Return the fault of the next request."""
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
def faulty_proxy(endpoint: str, faults: FaultChoice) -> Iterator[str]:
    """Yield the address of a proxy before a server."""
    target = urlsplit(endpoint).netloc

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _forward(self) -> None:
            size, fault = int(self.headers.get("Content-Length") or 0), faults.next(self.command, self.path)
            body = self.rfile.read(size // 2 if fault == "cut" else size)
            if fault == "cut":
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
                return
            if fault in ("busy", "failed"):
                status, text = (503, _BUSY) if fault == "busy" else (500, _FAILED)
                self._answer(status, [("Content-Type", "application/xml")], text)
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

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            """Say nothing of connections that are broken off, which is what this proxy is for."""
            if not isinstance(sys.exc_info()[1], ConnectionError):
                super().handle_error(request, client_address)

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
