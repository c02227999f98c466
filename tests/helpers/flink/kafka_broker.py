"""A Kafka broker as a process on the loopback interface, and jobs of Flink's Kafka connector that use it."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.helpers.flink.compilation import JAVA, JOBS, compiled
from tests.helpers.flink.jars import cache
from tests.helpers.flink.maven_central import fetched

VERSION = "3.9.1"
"""The newest release of Kafka that Java 17 runs and that clients of 3.4 and 3.9 talk to."""
START_SECONDS = 90
QUIET = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
}


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


@contextmanager
def kafka_broker(directory: Path) -> Iterator[str]:
    """Run a broker that is its own controller; yield its address.

    Args:
        directory: Where it keeps its logs and settings.

    Raises:
        RuntimeError: The broker did not start.
    """
    artifacts = [("org.apache.kafka", "kafka_2.13", VERSION), ("org.slf4j", "slf4j-nop", "1.7.36")]
    class_path = os.pathsep.join(map(str, fetched(artifacts, cache() / f"kafka-{VERSION}")))
    port, controller = _free_ports(2)
    settings = {
        **SETTINGS,
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "log.dirs": str(directory / "logs"),
    }
    directory.mkdir(parents=True, exist_ok=True)
    properties = directory / "server.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    java = ["java", *QUIET, "-cp", class_path]
    identity = ["-t", "c3RhdGVwcm9jLXRlc3RzIQ", "-c", str(properties)]
    log = directory / "broker.log"
    with log.open("w") as out:
        subprocess.run([*java, "kafka.tools.StorageTool", "format", *identity], check=True, stdout=out, stderr=out)
        process = subprocess.Popen([*java, "kafka.Kafka", str(properties)], stdout=out, stderr=out)
    try:
        _wait_for(port, process, log)
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError(f"the broker did not start:\n{log.read_text()[-4000:]}")


@dataclass(frozen=True)
class Record:
    """A record that the job has read: where it was, and how many of its partition the job has counted with it."""

    partition: str
    offset: int
    count: int


class KafkaJobs:
    """A JVM of one release of Flink that runs jobs of `jobs/brokered`, one at a time, as a test says."""

    def __init__(self, release: str, servers: str, log: Path) -> None:
        class_path = compiled(release, "fixtures", [JOBS / "commands", JOBS / "brokered"])
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                [*JAVA, *QUIET, "-Xmx1g", "-cp", class_path, "brokered.Brokered", servers],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
            )  # fmt: skip
        self._log = log
        # A JVM that hangs ends, so that a command gets an answer.
        self._timer = threading.Timer(900, self._process.kill)
        self._timer.daemon = True
        self._timer.start()

    def command(self, *words: object) -> str:
        """Give a command (see Brokered.java); return its result. Raises RuntimeError with the job's causes."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write("\t".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().rstrip("\n")
        outcome, _, result = answer.partition("\t")
        if outcome != "done":
            raise RuntimeError(f"{words}: {result or self._log.read_text()[-4000:]}")
        return result

    def run(
        self, name: str, partitions: str, *, savepoint: Path | str = "", out: str = "", parallelism: int = 2,
        timeout: int = 600_000,
    ) -> None:  # fmt: skip
        """Start a job.

        Args:
            name: The consumer group of its source, and the prefix of its sink's transactions.
            partitions: TOPIC:PARTITION of those that the source reads, with commas between.
            savepoint: What it is restored from.
            out: The topic of its sink; without, it has no sink.
            parallelism: That of all operators.
            timeout: Milliseconds after which the broker aborts an open transaction of its sink.
        """
        self.command("run", name, partitions, parallelism, timeout, savepoint, out)

    def seen(self) -> list[Record]:
        """Return what the job has read so far."""
        lines = [line.rsplit(":", 2) for line in self.command("seen").split(",") if line]
        return [Record(partition, int(offset), int(count)) for partition, offset, count in lines]

    def read_until(self, last: dict[str, int], seconds: float = 60) -> list[Record]:
        """Wait until the job has read the record at the given offset of each partition; return all it has read."""
        end = time.monotonic() + seconds
        while True:
            records = self.seen()
            if {(item.partition, item.offset) for item in records} >= set(last.items()):
                return records
            if time.monotonic() > end:
                raise RuntimeError(f"{last} are not read, but {records[-20:]}")
            time.sleep(0.1)

    def cancel_with_savepoint(self, directory: Path, kind: str = "canonical") -> Path:
        """Take a savepoint, cancel the job, and return the savepoint."""
        path = self.command("savepoint", kind, directory.as_uri()).removeprefix("file:")
        self.command("cancel")
        return Path(path)

    def cancel_with_pending(self, directory: Path, topic: str, kind: str = "canonical") -> Path:
        """Take a savepoint whose transactions are never committed, as if the job had been killed just then.

        A record is produced to partition 0 of the topic, which is not part of the savepoint. The job is cancelled.
        """
        return Path(self.command("pending", kind, directory.as_uri(), topic).removeprefix("file:"))

    def close(self) -> None:
        """End the JVM."""
        self._timer.cancel()
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
