"""A real HDFS on this machine: Hadoop's mini cluster, from Maven Central, in a JVM of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.helpers.flink.jars import cache
from tests.helpers.flink.maven_central import fetched
from tests.helpers.paths import HELPERS
from tests.helpers.quick_java import QUICK_JAVA

HADOOP = "3.4.1"
_ARTIFACTS = [
    *(("org.apache.hadoop", f"hadoop-client-{part}", HADOOP) for part in ("minicluster", "runtime", "api")),
    ("org.slf4j", "slf4j-nop", "1.7.36"),
    ("org.mockito", "mockito-core", "4.11.0"),
]
_JVM = ["java", "-Xmx512m", *QUICK_JAVA]


@contextmanager
def hdfs(directory: Path) -> Iterator[str]:
    """An HDFS whose blocks are in ``directory``; its URI, without a slash at the end."""
    path = ":".join(map(str, fetched(_ARTIFACTS, cache() / f"hadoop-{HADOOP}")))
    source = HELPERS / "stores" / "MiniHdfs.java"
    subprocess.run(["javac", "-d", str(directory), "-cp", path, str(source)], check=True)
    command = [*_JVM, "-cp", f"{path}:{directory}", "MiniHdfs", str(directory / "blocks")]
    with (
        open(directory / "log", "w") as log,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True) as running,
    ):
        assert running.stdout is not None and running.stdin is not None
        port = running.stdout.readline().strip()
        assert port, (directory / "log").read_text()
        try:
            yield f"hdfs://127.0.0.1:{port}"
        finally:
            running.stdin.close()
            running.wait(60)
