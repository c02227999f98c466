"""Decoding of well-known byte formats, built here like Flink's and the Kafka connector's serializers do."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest

from stateproc.connectors import connector_columns, read_coordinator
from stateproc.connectors.connector_format import Versioned, unwrap
from stateproc.errors import CorruptSnapshot

NO_STOPPING_OFFSET = -(1 << 63)


def utf(text: str) -> bytes:
    return struct.pack(">H", len(text.encode())) + text.encode()


def sized(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def versioned(version: int, payload: bytes) -> bytes:
    return struct.pack(">i", version) + sized(payload)


def versioned_list(version: int, payloads: list[bytes]) -> bytes:
    return struct.pack(">ii", version, len(payloads)) + b"".join(map(sized, payloads))


def kafka_split(topic: str, partition: int, start: int, stop: int = NO_STOPPING_OFFSET) -> bytes:
    return utf(topic) + struct.pack(">iqq", partition, start, stop)


def splits(*payloads: bytes, version: int = 0) -> list[bytes]:
    return [versioned(version, payload) for payload in payloads]


KAFKA_COLUMNS = pa.struct(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("starting_offset", pa.int64()),
        ("stopping_offset", pa.int64()),
    ]
)


def test_unwrap_consumes_the_whole_value() -> None:
    assert unwrap(versioned(3, b"abc")) == Versioned(3, b"abc")


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        bytes(7),
        versioned(0, b"abc")[:-1],
        versioned(0, b"") + b"x",
        versioned(-1, b""),
        b"\0" * 4 + b"\xff" * 4,
    ],
)
def test_unwrap_refuses_bytes_without_a_valid_version_and_length(bad: bytes) -> None:
    with pytest.raises(CorruptSnapshot) as error:
        unwrap(bad, file="op-1")
    assert error.value.where.file == "op-1"


def test_kafka_offsets_of_a_savepoint_are_returned_as_a_table() -> None:
    values = splits(
        kafka_split("orders", 0, 1234),
        kafka_split("orders", 11, (1 << 63) - 1, 0),
        kafka_split("a.b-c_D", 2147483647, -2),
        kafka_split("a.b-c_D", 1, -3, -3),
        kafka_split("a.b-c_D", 2, -1, -1),
    )
    table = connector_columns("SourceReaderState", values)
    assert table is not None
    assert table.type == KAFKA_COLUMNS
    assert [tuple(row.values()) for row in table.to_pylist()] == [
        ("orders", 0, 1234, None),
        ("orders", 11, (1 << 63) - 1, 0),
        ("a.b-c_D", 2147483647, -2, None),
        ("a.b-c_D", 1, -3, -3),
        ("a.b-c_D", 2, -1, -1),
    ]


def test_rows_have_the_order_of_the_input_including_nulls() -> None:
    (value,) = splits(kafka_split("t", 1, 2, 3))
    for values in (
        [None, value],
        pa.array([None, value], pa.binary()),
        pa.chunked_array([pa.array([None], pa.binary()), pa.array([value], pa.binary())]),
    ):
        table = connector_columns("SourceReaderState", values)
        assert table is not None
        assert table.to_pylist() == [
            None,
            {"topic": "t", "partition": 1, "starting_offset": 2, "stopping_offset": 3},
        ]


NOT_KAFKA = {
    "a negative partition": kafka_split("t", -1, 0),
    "an offset below the markers": kafka_split("t", 0, -4),
    "a stopping offset below the markers": kafka_split("t", 0, 0, -4),
    "no topic": kafka_split("", 0, 0),
    "a topic Kafka does not allow": kafka_split("a b", 0, 0),
    "a topic that is too long": kafka_split("t" * 250, 0, 0),
    "bytes after the split": kafka_split("t", 0, 0) + b"\0",
    "bytes missing": kafka_split("t", 0, 0)[:-1],
    "something else": b"\xff\xff",
}


@pytest.mark.parametrize("other", NOT_KAFKA.values(), ids=NOT_KAFKA.keys())
def test_splits_with_one_of_another_connector_are_returned_as_version_and_payload(other: bytes) -> None:
    good = kafka_split("t", 0, 0)
    table = connector_columns("SourceReaderState", splits(good, other))
    assert table is not None
    assert table.to_pylist() == [{"version": 0, "payload": good}, {"version": 0, "payload": other}]


def test_a_split_of_an_unknown_version_is_returned_as_bytes() -> None:
    payload = kafka_split("t", 0, 0)
    table = connector_columns("SourceReaderState", splits(payload, version=1))
    assert table is not None
    assert table.to_pylist() == [{"version": 1, "payload": payload}]


def test_no_splits_give_an_empty_table() -> None:
    table = connector_columns("SourceReaderState", [])
    assert table is not None
    assert table.to_pylist() == []


def test_other_states_and_other_bytes_are_not_decoded() -> None:
    good = splits(kafka_split("t", 0, 0))
    assert connector_columns("my-list", good) is None
    assert connector_columns("SourceReaderState", [*good, b"no versioned bytes"]) is None


def nullable(text: str | None) -> bytes:
    """Encode ASCII text like Flink's StringUtils.writeNullableString."""
    return b"\0" if text is None else b"\1" + bytes([len(text) + 1]) + text.encode()


def file_path(scheme: str, host: str | None, port: int, path: str) -> bytes:
    return (
        b"\1" + nullable(scheme) + nullable(None) + nullable(host) + struct.pack(">i", port)
        + nullable(path) + nullable(None) + nullable(None)
    )  # fmt: skip


HOSTS = struct.pack(">i", 2) + utf("h1") + utf("h2")


def test_file_splits_are_decoded() -> None:
    positioned = (
        utf("0001") + file_path("hdfs", "nn", 8020, "/in/a.csv")
        + struct.pack(">qqqq", 5, 10, 1700000000000, 99)
        + HOSTS + b"\1" + struct.pack(">qq", 7, 2)
    )  # fmt: skip
    fresh = utf("0002") + file_path("file", None, -1, "/b") + struct.pack(">qqqq", 0, 1, 2, 3) + bytes(4) + b"\0"
    table = connector_columns("SourceReaderState", splits(positioned, fresh, version=1))
    assert table is not None
    assert table.to_pylist() == [
        {
            "split_id": "0001",
            "path": "hdfs://nn:8020/in/a.csv",
            "offset": 5,
            "length": 10,
            "file_modification_time": 1700000000000,
            "file_size": 99,
            "hosts": ["h1", "h2"],
            "reader_offset": 7,
            "records_after_offset": 2,
        },
        {
            "split_id": "0002",
            "path": "file:/b",
            "offset": 0,
            "length": 1,
            "file_modification_time": 2,
            "file_size": 3,
            "hosts": [],
            "reader_offset": None,
            "records_after_offset": None,
        },
    ]


def test_file_splits_of_version_1_have_no_file_time_and_size() -> None:
    old = utf("1") + file_path("file", None, -1, "/b") + struct.pack(">qq", 0, 1) + HOSTS + b"\0"
    table = connector_columns("SourceReaderState", splits(old, version=1))
    assert table is not None
    (row,) = table.to_pylist()
    assert (row["path"], row["length"], row["file_size"], row["hosts"]) == ("file:/b", 1, None, ["h1", "h2"])


def partition(topic: str, number: int, *, assigned: bool = True, start: int | None = None) -> dict[str, object]:
    return {
        "topic": topic,
        "partition": number,
        "starting_offset": start,
        "stopping_offset": None,
        "assigned": assigned,
    }


ENUMERATORS = {
    0: (
        struct.pack(">iiii", 1, 0, 7, 2) + sized(kafka_split("a", 0, 5)) + sized(kafka_split("b", 1, -2)),
        [partition("a", 0, start=5), partition("b", 1, start=-2)],
        None,
    ),
    1: (
        struct.pack(">i", 2) + utf("a") + struct.pack(">i", 0) + utf("b") + struct.pack(">i", 1),
        [partition("a", 0), partition("b", 1)],
        None,
    ),
    2: (
        struct.pack(">i", 2) + utf("a") + struct.pack(">ii", 0, 0) + utf("b") + struct.pack(">ii", 1, 1) + b"\1",
        [partition("a", 0), partition("b", 1, assigned=False)],
        True,
    ),
    3: (
        struct.pack(">ii", 1, 0) + sized(kafka_split("a", 3, 42)) + struct.pack(">i", 1) + b"\0",
        [partition("a", 3, assigned=False, start=42)],
        False,
    ),
}


@pytest.mark.parametrize("version", ENUMERATORS)
def test_kafka_enumerators_are_decoded(version: int) -> None:
    payload, partitions, finished = ENUMERATORS[version]
    assert read_coordinator(struct.pack(">i", 1) + versioned(version, payload), "_metadata") == {
        "kind": "source",
        "serde_version": 1,
        "enumerator_version": version,
        "enumerator": payload,
        "format": "kafka",
        "decoded": {"partitions": partitions, "initial_discovery_finished": finished},
        "assignments": b"",
    }


@pytest.mark.parametrize("version", ENUMERATORS)
def test_a_truncated_enumerator_is_not_decoded(version: int) -> None:
    payload = ENUMERATORS[version][0]
    for end in range(len(payload)):
        state = read_coordinator(struct.pack(">i", 1) + versioned(version, payload[:end]))
        assert (state["format"], state["enumerator"]) == (None, payload[:end])


@pytest.mark.parametrize(("version", "size"), [(0, 8), (1, 4), (2, 5), (3, 9)])
def test_an_enumerator_without_partitions_is_not_decoded_as_kafka(version: int, size: int) -> None:
    state = read_coordinator(struct.pack(">i", 1) + versioned(version, bytes(size)))
    assert (state["kind"], state["format"], state["decoded"]) == ("source", None, None)


def test_serde_version_0_stores_assignments_after_the_enumerator() -> None:
    state = read_coordinator(bytes(4) + versioned(9, b"enum") + b"rest")
    assert (state["serde_version"], state["enumerator_version"], state["enumerator"]) == (0, 9, b"enum")
    assert (state["decoded"], state["assignments"]) == (None, b"rest")


@pytest.mark.parametrize(
    "other",
    [
        b"",
        bytes.fromhex("aced0005737200"),
        struct.pack(">i", 2) + versioned(0, b""),
        struct.pack(">i", 1) + versioned(0, b"") + b"x",
        struct.pack(">iii", 1, 0, 2147483647),
    ],
)
def test_other_coordinators_are_returned_as_bytes(other: bytes) -> None:
    assert read_coordinator(other) == {"kind": "bytes", "data": other}


def test_kafka_writers_are_decoded() -> None:
    v2 = utf("tx-2") + struct.pack(">iiii", 3, 4, 1, 1) + utf("tx-2-3-9") + struct.pack(">q", 9)
    unknown = utf("tx-3") + struct.pack(">iiii", -1, -1, 0, 0)
    table = connector_columns("writer_raw_states", [versioned(1, utf("tx-1")), versioned(2, v2), versioned(2, unknown)])
    assert table is not None
    assert [tuple(row.values()) for row in table.to_pylist()] == [
        ("tx-1", None, None, None, None),
        ("tx-2", 3, 4, "EXPLICIT_BY_WRITER_STATE", [{"transactional_id": "tx-2-3-9", "checkpoint_id": 9}]),
        ("tx-3", None, None, "IMPLICIT_BY_SUBTASK_ID", []),
    ]


def test_other_writers_are_returned_as_version_and_payload() -> None:
    table = connector_columns("writer_raw_states", [versioned(1, b"\0\0\0\5hello")])
    assert table is not None
    assert table.to_pylist() == [{"version": 1, "payload": b"\0\0\0\5hello"}]


MAGIC = struct.pack(">I", 0xB91F252C)


def committable(transactional_id: str, producer: int, epoch: int) -> bytes:
    return struct.pack(">hq", epoch, producer) + utf(transactional_id)


def collector(payload: bytes, *, newest: bool, committable_version: int = 1) -> bytes:
    """Encode one request with two retries like CommittableCollectorSerializer of Flink 1.15 to 1.20 or 2.x (newest)."""
    request = versioned(committable_version, payload) + struct.pack(">ii", 2, 1)
    requests = versioned_list(0, [request])
    if newest:
        subtasks = versioned_list(2, [struct.pack(">i", 5) + requests + struct.pack(">ii", 1, 0)])
        checkpoint = struct.pack(">qi", 77, 8) + subtasks
        return versioned(2, MAGIC + versioned_list(1, [checkpoint]))
    subtasks = versioned_list(0, [requests + struct.pack(">iii", 1, 0, 0)])
    return versioned(2, MAGIC + versioned_list(0, [struct.pack(">q", 77) + subtasks]))


@pytest.mark.parametrize("newest", [False, True])
def test_committables_of_kafka_are_decoded(newest: bool) -> None:
    payload = committable("tx-0-1", 1001, 3)
    table = connector_columns("streaming_committer_raw_states", [collector(payload, newest=newest)])
    assert table is not None
    assert table.to_pylist() == [
        {
            "version": 2,
            "committables": [
                {
                    "checkpoint_id": 77,
                    "subtask": 5 if newest else None,
                    "retries": 2,
                    "request_state": "RETRY",
                    "version": 1,
                    "payload": payload,
                    "transactional_id": "tx-0-1",
                    "producer_id": 1001,
                    "epoch": 3,
                    "prepared_transaction": None,
                }
            ],
        }
    ]


def test_committables_of_an_unknown_sink_and_of_flink_1_13_are_version_and_payload() -> None:
    old = versioned(1, MAGIC + versioned_list(4, [b"one", b"two"]))
    table = connector_columns("streaming_committer_raw_states", [old, collector(b"three", newest=True)])
    assert table is not None
    first, second = table.to_pylist()
    assert [(c["version"], c["payload"]) for c in first["committables"]] == [(4, b"one"), (4, b"two")]
    assert first["committables"][0]["checkpoint_id"] is None
    assert [c["payload"] for c in second["committables"]] == [b"three"]
    assert "transactional_id" not in second["committables"][0]


def test_a_prepared_transaction_of_committable_version_2_is_decoded() -> None:
    payload = committable("tx", 1, 0) + b"\1" + utf("prepared")
    table = connector_columns(
        "streaming_committer_raw_states", [collector(payload, newest=True, committable_version=2)]
    )
    assert table is not None
    assert table.to_pylist()[0]["committables"][0]["prepared_transaction"] == "prepared"


@pytest.mark.parametrize("newest", [False, True])
def test_every_truncation_of_a_committer_state_is_returned_as_bytes(newest: bool) -> None:
    whole = unwrap(collector(committable("tx", 1, 0), newest=newest)).payload
    for end in range(len(whole)):
        table = connector_columns("streaming_committer_raw_states", [versioned(2, whole[:end])])
        assert table is not None
        assert table.to_pylist() == [{"version": 2, "payload": whole[:end]}]
