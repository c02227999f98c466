"""Jobs of the Kafka connector read from a real broker exactly the records from the offsets that `set-offsets` wrote.

Flink 1.20 with the connector 3.4, and Flink 2.3 with 4.0. The source of a job that has read all records is moved; the
job is restored, and reads on. The count of each partition in keyed state goes on from that of the savepoint.
"""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from stateproc.cli import main
from tests.helpers.flink.compilation import JAVA, JOBS, compiled
from tests.helpers.flink.jars import cache
from tests.helpers.flink.maven_central import fetched

# A Kafka broker as a process on the loopback interface, and jobs of Flink's Kafka connector that use it.


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
        consumer = [JOBS / "brokered_v1"] if release == "1.20" else []
        class_path = compiled(release, "fixtures", [JOBS / "commands", JOBS / "brokered", *consumer])
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
        timeout: int = 600_000, consumes: bool = False,
    ) -> None:  # fmt: skip
        """Start a job.

        Args:
            name: The consumer group of its source, and the prefix of its sink's transactions.
            partitions: TOPIC:PARTITION of those that the source reads, with commas between.
            savepoint: What it is restored from.
            out: The topic of its sink; without, it has no sink.
            parallelism: That of all operators.
            timeout: Milliseconds after which the broker aborts an open transaction of its sink.
            consumes: Whether it has the consumer of Flink 1, of all partitions of the topics, in place of the source.
        """
        self.command("consume" if consumes else "run", name, partitions, parallelism, timeout, savepoint, out)

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


pytestmark = pytest.mark.flink

RECORDS = 20
FIRST = 5
"""The first record of partition 0 that the broker still has."""
COMMITTED = {0: 7, 1: 12, 2: 20, 3: 0}
"""The offsets of the consumer group."""
FORMATS = {"1.20": "canonical", "2.3": "native"}
DELIVERED = 10
"""Records of a pending transaction."""
DROPPED_MILLIS = 15_000
"""The time after which the broker aborts a transaction that is dropped."""


@dataclass
class Shop:
    """A release's jobs, the savepoint of one that has read everything, and where the partitions end now."""

    release: str
    jobs: KafkaJobs
    folder: Path
    savepoint: Path = Path()
    ends: dict[str, int] = field(default_factory=dict)

    @property
    def topic(self) -> str:
        return f"orders-{self.release}"

    @property
    def partitions(self) -> list[str]:
        return [f"{self.topic}:{number}" for number in range(4)]

    def produce(self, partition: str, count: int) -> None:
        topic, _, number = partition.rpartition(":")
        self.ends[partition] = int(self.jobs.command("produce", topic, number, count))

    def moved(self, name: str, *arguments: str, savepoint: Path | None = None) -> Path:
        """Return the savepoint with other offsets."""
        target = self.folder / name
        line = ["set-offsets", str(savepoint or self.savepoint), str(target), "--uid", "source", *arguments]
        assert main([*line, "--json"]) == 0
        return target

    def read(self, savepoint: Path, partitions: list[str], parallelism: int = 2) -> list[Record]:
        """Return what the restored job reads up to the last record of each partition."""
        self.jobs.run(self.topic, ",".join(partitions), savepoint=savepoint, parallelism=parallelism)
        records = self.jobs.read_until({partition: self.ends[partition] - 1 for partition in partitions})
        self.jobs.command("cancel")
        return records


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with kafka_broker(tmp_path_factory.mktemp("kafka")) as address:
        yield address


@pytest.fixture(scope="module", params=list(FORMATS))
def shop(request: pytest.FixtureRequest, servers: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """A job has read 20 records of each partition; one more of each comes after its savepoint."""
    folder = tmp_path_factory.mktemp(f"moved-{request.param}")
    shop = Shop(request.param, KafkaJobs(request.param, servers, folder / "flink.log"), folder)
    try:
        shop.jobs.command("create", shop.topic, 4)
        shop.jobs.command("create", f"more-{shop.release}", 2)
        for partition in shop.partitions:
            shop.produce(partition, RECORDS)
        shop.jobs.command("delete", shop.topic, 0, FIRST)
        for number, offset in COMMITTED.items():
            shop.jobs.command("commit", shop.topic, shop.topic, number, offset)
        shop.jobs.run(shop.topic, ",".join(shop.partitions))
        records = shop.jobs.read_until(dict.fromkeys(shop.partitions, RECORDS - 1))
        assert read_of(records) == {
            partition: list(range(0 if number else FIRST, RECORDS)) for number, partition in enumerate(shop.partitions)
        }
        shop.savepoint = shop.jobs.cancel_with_savepoint(folder, FORMATS[shop.release])
        for partition in shop.partitions:
            shop.produce(partition, 1)
        yield shop
    finally:
        shop.jobs.close()


def read_of(records: list[Record]) -> dict[str, list[int]]:
    """Partition → the offsets that were read, in their order."""
    found: dict[str, list[int]] = {}
    for record in records:
        found.setdefault(record.partition, []).append(record.offset)
    return found


def check(shop: Shop, records: list[Record], starts: dict[str, int]) -> None:
    """Exactly the records from the starts on are read, once, in their order, and counted after those before."""
    wanted = {partition: list(range(start, shop.ends[partition])) for partition, start in starts.items()}
    assert read_of(records) == wanted
    for partition in wanted:
        before = 0
        if partition in shop.partitions:
            before = RECORDS - (FIRST if partition.endswith(":0") else 0)
        counts = [record.count for record in records if record.partition == partition]
        assert counts == list(range(before + 1, before + 1 + len(counts)))


def starts_of(shop: Shop, *offsets: int) -> dict[str, int]:
    return dict(zip(shop.partitions, offsets, strict=False))


def test_an_unchanged_copy_goes_on(shop: Shop) -> None:
    assert main(["copy", str(shop.savepoint), str(shop.folder / "copy"), "--json"]) == 0
    check(shop, shop.read(shop.folder / "copy", shop.partitions), starts_of(shop, *[RECORDS] * 4))


@pytest.mark.parametrize("parallelism", [1, 3])
def test_partitions_go_on_at_the_offsets_that_were_set(shop: Shop, parallelism: int) -> None:
    """Partition 3 is not named."""
    numbers = (11, RECORDS, 0)
    options = [text for n, offset in enumerate(numbers) for text in ("--offsets", f"{shop.topic}:{n}={offset}")]
    records = shop.read(shop.moved(f"numbers-{parallelism}", *options), shop.partitions, parallelism)
    check(shop, records, starts_of(shop, *numbers, RECORDS))


def test_earliest_is_the_first_record_that_the_broker_has(shop: Shop) -> None:
    records = shop.read(shop.moved("earliest", "--all", "earliest"), shop.partitions)
    check(shop, records, starts_of(shop, FIRST, 0, 0, 0))


def test_committed_is_the_offset_of_the_group(shop: Shop) -> None:
    records = shop.read(shop.moved("committed", "--all", "committed"), shop.partitions)
    check(shop, records, starts_of(shop, *COMMITTED.values()))


def test_one_partition_differs_from_its_topic(shop: Shop) -> None:
    options = ["--topics", f"{shop.topic}=earliest", "--offsets", f"{shop.topic}:2=committed"]
    records = shop.read(shop.moved("topic", *options, "--offsets", f"{shop.topic}:1=19"), shop.partitions)
    check(shop, records, starts_of(shop, FIRST, 19, COMMITTED[2], 0))


def test_partitions_are_added_and_removed(shop: Shop) -> None:
    added = [f"more-{shop.release}:0", f"more-{shop.release}:1"]
    for partition in added:
        shop.produce(partition, DELIVERED)
    options = ["--offsets", f"{added[0]}=3", "--offsets", f"{added[1]}=earliest", "--remove", shop.partitions[3]]
    records = shop.read(shop.moved("added", *options), shop.partitions[:3] + added)
    check(shop, records, {**starts_of(shop, *[RECORDS] * 3), added[0]: 3, added[1]: 0})


def test_a_removed_partition_that_the_job_still_reads_starts_anew(shop: Shop) -> None:
    """As the plan says: the connector finds it again, and reads it from its beginning."""
    records = shop.read(shop.moved("removed", "--remove", shop.partitions[3]), shop.partitions)
    check(shop, records, starts_of(shop, RECORDS, RECORDS, RECORDS, 0))


def test_latest_is_after_the_last_record(shop: Shop) -> None:
    """Records are produced until each partition has been read: none that was there before the restore is."""
    before = dict(shop.ends)
    shop.jobs.run(shop.topic, ",".join(shop.partitions), savepoint=shop.moved("latest", "--all", "latest"))
    for _ in range(300):
        for partition in shop.partitions:
            shop.produce(partition, 1)
        if set(read_of(shop.jobs.seen())) == set(shop.partitions):
            break
    records = shop.jobs.read_until({partition: shop.ends[partition] - 1 for partition in shop.partitions})
    shop.jobs.command("cancel")
    starts = {partition: offsets[0] for partition, offsets in read_of(records).items()}
    assert all(starts[partition] >= before[partition] for partition in shop.partitions)
    check(shop, records, starts)


def taken_with_pending(shop: Shop, name: str, timeout: int) -> Path:
    """A savepoint with a transaction of ten records that is not committed; one more record comes after it."""
    for topic in (name, f"{name}-out"):
        shop.jobs.command("create", topic, 1)
    shop.jobs.run(name, f"{name}:0", out=f"{name}-out", parallelism=1, timeout=timeout)
    # After the first of the periodic checkpoints, which Flink 2.3 takes at once.
    shop.jobs.command("checkpoint")
    shop.produce(f"{name}:0", DELIVERED)
    shop.jobs.read_until({f"{name}:0": DELIVERED - 1})
    savepoint = shop.jobs.cancel_with_pending(shop.folder, name, FORMATS[shop.release])
    assert committed(shop, name) == []
    return savepoint


def committed(shop: Shop, name: str) -> list[int]:
    """The offsets of the records that a reader of committed records finds in the topic of the sink."""
    lines = shop.jobs.command("committed", f"{name}-out").split(",")
    return [int(line.split(":")[2]) for line in lines if line]


def delivered(shop: Shop, name: str, savepoint: Path, least: int, seconds: float) -> tuple[list[int], float]:
    """The committed records when the restored job has taken a checkpoint, and the seconds until they could be read."""
    shop.jobs.run(name, f"{name}:0", out=f"{name}-out", savepoint=savepoint, parallelism=1)
    shop.jobs.read_until({f"{name}:0": DELIVERED})
    shop.jobs.command("checkpoint")
    start = time.monotonic()
    while len(committed(shop, name)) < least and time.monotonic() < start + seconds:
        time.sleep(0.2)
    passed = time.monotonic() - start
    found = committed(shop, name)
    shop.jobs.command("cancel")
    return found, passed


def test_pending_transactions_are_committed_unless_they_are_dropped(shop: Shop) -> None:
    name = f"kept{FORMATS[shop.release]}"
    savepoint = taken_with_pending(shop, name, 600_000)
    moved = shop.moved(f"moved-{name}", "--offsets", f"{name}:0=4", savepoint=savepoint)
    wanted = [*range(DELIVERED), *range(4, DELIVERED + 1)]
    assert delivered(shop, name, moved, len(wanted), 30)[0] == wanted


def test_dropped_transactions_are_not_committed(shop: Shop) -> None:
    """Read again from the first record, each record is delivered once, when Kafka has aborted what was dropped."""
    name = f"dropped{FORMATS[shop.release]}"
    savepoint = taken_with_pending(shop, name, DROPPED_MILLIS)
    options = ["--offsets", f"{name}:0=0", "--drop-transactions", "sink"]
    moved = shop.moved(f"moved-{name}", *options, savepoint=savepoint)
    found, seconds = delivered(shop, name, moved, DELIVERED + 1, 2 * DROPPED_MILLIS / 1000)
    print(f"{shop.release}: the dropped transaction was gone after {seconds:.1f} s")
    assert found == [*range(DELIVERED + 1)]


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_source_goes_on_where_the_consumer_of_flink_1_was(shop: Shop, parallelism: int) -> None:
    """The counts go on from those of the consumer's job; one partition is set back in the same way."""
    if shop.release != "1.20":
        pytest.skip("the connector of Flink 2 has no FlinkKafkaConsumer")
    topic = f"consumed-{parallelism}"
    shop.jobs.command("create", topic, 3)
    partitions = [f"{topic}:{number}" for number in range(3)]
    for partition in partitions:
        shop.produce(partition, RECORDS)
    shop.jobs.run(topic, ",".join(partitions), consumes=True)
    shop.jobs.read_until(dict.fromkeys(partitions, RECORDS - 1))
    savepoint = shop.jobs.cancel_with_savepoint(shop.folder, "canonical")
    for partition in partitions:
        shop.produce(partition, 2)
    back = shop.folder / f"{topic}-back"
    assert (
        main(["set-offsets", str(savepoint), str(back), "--uid", "consumer", "--offsets", f"{topic}:1=7", "--json"])
        == 0
    )
    moved = shop.folder / f"{topic}-moved"
    assert main(["move-source", str(back), str(moved), "--uid", "consumer", "--to", "source", "--json"]) == 0
    shop.jobs.run(topic, ",".join(partitions), savepoint=moved, parallelism=parallelism)
    records = shop.jobs.read_until({partition: shop.ends[partition] - 1 for partition in partitions})
    shop.jobs.command("cancel")
    starts = dict(zip(partitions, (RECORDS, 7, RECORDS), strict=True))
    assert read_of(records) == {
        partition: list(range(start, shop.ends[partition])) for partition, start in starts.items()
    }
    for partition in partitions:
        counts = [record.count for record in records if record.partition == partition]
        assert counts == list(range(RECORDS + 1, RECORDS + 1 + len(counts)))
