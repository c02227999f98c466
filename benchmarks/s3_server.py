"""An S3 server for benchmarks: versitygw, which serves the files of a directory as the objects of a bucket.

    go install github.com/versity/versitygw/cmd/versitygw@latest      # into $(go env GOPATH)/bin

A server in Python is no measure: moto, which the tests use, copies the whole object for each range of it (a range of
4 KB takes 14 ms of an object of 10 MB, and 430 ms of one of 400 MB). versitygw sends 300 to 500 MB per second over the
loopback interface to one process of s3fs.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

BUCKET = "flink"
_SECONDS_TO_START = 20


@dataclass(frozen=True)
class S3Server:
    """A running server.

    Attributes:
        endpoint: Its address.
        bucket: The directory of the bucket.
    """

    endpoint: str
    bucket: Path

    @property
    def environment(self) -> dict[str, str]:
        """The settings by which clients find it."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "id",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def add(self, directory: Path, name: str) -> str:
        """Make a directory's files objects below ``name``, by hard links; return its URI."""
        shutil.copytree(directory, self.bucket / name, copy_function=os.link)
        return f"s3://{BUCKET}/{name}"


@contextmanager
def s3_server(near: Path) -> Iterator[S3Server]:
    """Run a server until the context ends. ``near``: a directory on the file system of what is added to it."""
    program = shutil.which("versitygw") or str(Path.home() / "go/bin/versitygw")
    if not os.access(program, os.X_OK):
        sys.exit("versitygw is not installed: go install github.com/versity/versitygw/cmd/versitygw@latest")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(dir=near) as directory:
        bucket = Path(directory, BUCKET)
        bucket.mkdir()
        command = [program, "--port", f"127.0.0.1:{port}", "--keep-alive", "--quiet", "posix", "--nometa", directory]
        environment = {**os.environ, "ROOT_ACCESS_KEY": "id", "ROOT_SECRET_KEY": "secret"}
        server = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        try:
            _wait_for(port)
            yield S3Server(f"http://127.0.0.1:{port}", bucket)
        finally:
            server.terminate()
            server.wait()


def _wait_for(port: int) -> None:
    for _ in range(10 * _SECONDS_TO_START):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    sys.exit(f"the S3 server does not answer within {_SECONDS_TO_START} seconds")
