"""Writes on a cluster go on although processes are killed, and the store is busy, slow, or drops connections."""

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
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import stateproc
from tests.helpers.spark.cluster_program import OPERATOR, STATE
from tests.helpers.spark.standalone_cluster import Cluster, standalone_cluster, totals, write_and_read
from tests.helpers.stores.object_store import BUCKET, Store, object_store

# A proxy before a store that is reached over HTTP: answers 503, slowly, or half, at random.


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


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with object_store() as made:
        yield made


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with standalone_cluster(tmp_path) as started:
        yield started


def check_target(store: Store, name: str, rows: int) -> None:
    """Read a savepoint in this process, and check that nothing of the write is left beside it."""
    snapshot = stateproc.open(f"s3://{BUCKET}/{name}", storage_options=store.options, uids=[OPERATOR])
    assert snapshot.state(OPERATOR, STATE).to_arrow().num_rows == rows
    assert snapshot.verify().is_intact
    assert not [item for item in store.names(name) if item.startswith(".")]


@pytest.mark.parametrize("kill", ["executor", "worker"])
def test_a_process_is_killed_meanwhile(cluster: Cluster, store: Store, kill: str) -> None:
    """Executors end with their worker, and with them the shuffled blocks that they serve."""
    rows = 1_000_000
    written, rewritten, found = cluster.run(write_and_read(rows, f"s3://{BUCKET}/{kill}", store.options, kill))
    print(written, rewritten, found)
    assert rewritten.get("result") == f"s3://{BUCKET}/{kill}/two", rewritten
    assert rewritten["killed"] == 1 and found.get("result") == totals(rows), found
    check_target(store, f"{kill}/two", rows)


def test_a_store_that_is_busy_slow_and_drops_connections(cluster: Cluster, store: Store) -> None:
    rows, faults = 200_000, Faults(busy=0.1, slow=0.05, dropped=0.05)
    with faulty_proxy(store.endpoint, faults) as endpoint:
        options = {**store.options, "endpoint_url": endpoint}
        written, rewritten, found = cluster.run(write_and_read(rows, f"s3://{BUCKET}/faults", options))
    print(written, rewritten, found, dict(faults.happened))
    assert rewritten.get("result") == f"s3://{BUCKET}/faults/two", (written, rewritten)
    assert found.get("result") == totals(rows), found
    check_target(store, "faults/two", rows)
    assert min(faults.happened[kind] for kind in ("busy", "slow", "dropped")) > 0
