"""A Spark standalone cluster: a master and two workers as processes of their own, each on an address of the loopback.

Spark speculates a task on another host only; 127.0.0.2 and 127.0.0.3 are two hosts to it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyspark

from tests.helpers.paths import ROOT, python_environment
from tests.helpers.quick_java import QUICK_SPARK_JAVA

MASTER = "127.0.0.1"
HOSTS = ("127.0.0.2", "127.0.0.3")
SECONDS = 240
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.minTaskRuntime": "100ms",
}
"""Settings with which Spark starts a second attempt of most tasks."""
_CORES = 2
_HEAP = "-Xmx256m"


@dataclass
class Cluster:
    """A running cluster.

    Attributes:
        url: Its master.
        folder: Where each process has a directory of its own, with its log.
        workers: The workers by their hosts.
    """

    url: str
    folder: Path
    workers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def run(
        self, steps: Sequence[Mapping[str, Any]], conf: Mapping[str, str] | None = None, python: str = sys.executable
    ) -> list[dict[str, Any]]:
        """Run a driver program with `tests.helpers.spark.cluster_program`, and return what each step printed.

        Args:
            steps: The steps, with their arguments.
            conf: Settings of the session.
            python: The interpreter of executors, a path or a name that each host looks up.
        """
        workers = {host: process.pid for host, process in self.workers.items()}
        plan = {"master": self.url, "steps": list(steps), "conf": dict(conf or {}), "workers": workers}
        environment = python_environment({"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": sys.executable})
        command = [sys.executable, "-m", "tests.helpers.spark.cluster_program", json.dumps(plan)]
        ran = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS)
        lines = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
        assert len(lines) == len(plan["steps"]), ran.stderr[-4000:]
        return lines

    def start_worker(self, host: str, environment: Mapping[str, str] | None = None) -> None:
        """Start a worker on a host, in place of one that was killed."""
        memory = ("--cores", str(_CORES), "--memory", "1g", "--webui-port", "0")
        directory = self.folder / host
        arguments = ("--host", host, "--work-dir", str(directory), *memory, self.url)
        self.workers[host] = _started("worker.Worker", arguments, directory, environment)
        _wait_for(directory / "log", "Successfully registered with master")


def write_and_read(rows: int, target: str, options: Mapping[str, str], kill: str | None = None) -> list[dict[str, Any]]:
    """Return the steps that bootstrap ``<target>/one``, write ``<target>/two`` with other key groups, and read it.

    Args:
        rows: The number of keys.
        target: A directory in a store.
        options: The store's.
        kill: Which process is killed while the copy is written: "executor" or "worker".
    """
    one, two = f"{target}/one", f"{target}/two"
    return [
        {"name": "bootstrap", "rows": rows, "target": one, "options": options},
        {"name": "rewrite", "source": one, "target": two, "max_parallelism": 256, "options": options, "kill": kill},
        {"name": "read", "source": two, "options": options},
    ]


def totals(rows: int) -> list[int]:
    """Return the number of rows that the program reads, and the sums of keys and values."""
    return [rows, rows * (rows - 1) // 2, rows * (rows - 1)]


@contextmanager
def standalone_cluster(folder: Path, environments: Mapping[str, Mapping[str, str]] | None = None) -> Iterator[Cluster]:
    """Start a cluster, and end all its processes afterwards.

    Args:
        folder: Where its processes have their directories.
        environments: Further variables of the workers' environments, by host; executors have them, too.
    """
    with ExitStack() as stack:
        arguments = ("--host", MASTER, "--port", "0", "--webui-port", "0")
        master = _started("master.Master", arguments, folder / "master")
        stack.callback(_end, master)
        text = _wait_for(folder / "master" / "log", "Starting Spark master at spark://")
        cluster = Cluster(text.partition("Starting Spark master at ")[2].split()[0], folder)
        stack.callback(lambda: [_end(worker) for worker in cluster.workers.values()])
        for host in HOSTS:
            cluster.start_worker(host, (environments or {}).get(host))
        yield cluster


def _started(
    name: str, arguments: Sequence[str], directory: Path, more: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    directory.mkdir(parents=True, exist_ok=True)
    home = Path(pyspark.__file__).parent
    options = (*QUICK_SPARK_JAVA, _HEAP, "-Dspark.master.rest.enabled=false")
    # As Spark's scripts have it: classes of an archive are those of one class path.
    (first,) = (home / "jars").glob("slf4j-api-*.jar")
    path = f"{home}/conf:{first}:{home}/jars/*"
    command = ["java", *options, *_OPENED, "-cp", path, f"org.apache.spark.deploy.{name}", *arguments]
    spark = {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": MASTER, "SPARK_SCALA_VERSION": _scala_version(home)}
    environment = {**python_environment(more), **spark}
    with (directory / "log").open("ab") as log:
        return subprocess.Popen(command, env=environment, cwd=directory, stdout=log, stderr=log, start_new_session=True)


def _scala_version(home: Path) -> str:
    """Return what Spark's start scripts would set; a worker does not start executors without it."""
    (core,) = (home / "jars").glob("spark-core_*.jar")
    return core.name.removeprefix("spark-core_").partition("-")[0]


_OPENED = tuple(
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in ("java.lang", "java.nio", "java.util", "java.net", "sun.nio.ch", "java.lang.invoke")
)


def _wait_for(log: Path, text: str) -> str:
    for _ in range(600):
        found = log.read_text(errors="replace")
        if text in found:
            return found
        time.sleep(0.1)
    raise AssertionError(f"{text!r} is not in {log}: {log.read_text(errors='replace')[-2000:]}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and the executors that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
