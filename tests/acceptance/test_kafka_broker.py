"""Jobs of the Kafka connector read from a real broker exactly the records from the offsets that `set-offsets` wrote.

Flink 1.20 with the connector 3.4, and Flink 2.3 with 4.0. The source of a job that has read all records is moved; the
job is restored, and reads on. The count of each partition in keyed state goes on from that of the savepoint.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from stateproc.cli import main
from tests.helpers.flink.kafka_broker import KafkaJobs, Record, kafka_broker

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
