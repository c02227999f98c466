"""Positions that are set in splits and enumerators of connectors, in every version that the vectors have."""

from __future__ import annotations

from typing import Any

import pytest

from stateproc.connectors.cdc import NEW_PACKAGE, OLD_PACKAGE
from stateproc.connectors.connector_format import ConnectorFormat, FormatRole, FormatRow, Versioned
from stateproc.connectors.registry import CONNECTOR_FORMATS
from stateproc.errors import InvalidOption, UnsupportedSnapshot
from stateproc.wire.output import Output
from tests.helpers.connector_vectors import Vector, accepted, connector_vectors
from tests.helpers.writers.source_savepoints import OLD_FACTORY

GTIDS = "24bc7850-2c16-11e6-a073-0242ac110002:1-500:502-503,3e11fa47-71ca-11e1-9e33-c80aa9429562:1-9"
TOKEN = '{"_data": "8264F1C0FF0000000A2B022C"}'
MOVES: dict[str, dict[str, tuple[str, str | None]]] = {
    "mysql-cdc": {
        "mysql-bin.000044:12": ("file:pos", "mysql-bin.000044:12"),
        "binlog.000001:9223372036854775807": ("file:pos", "binlog.000001:9223372036854775807"),
        GTIDS: ("GTID", GTIDS),
        GTIDS.replace(",", ", "): ("GTID", GTIDS),
        "earliest": ("file:pos", "earliest"),
        "latest": ("file:pos", "latest"),
        "1970-01-01T00:00:00Z": ("timestamp", "0"),
        "2026-01-31T12:00:00.999+01:00": ("timestamp", "1769857200"),
    },
    "postgres-cdc": {
        "0/1": ("LSN", "0/1"),
        "16/B374D848": ("LSN", "16/B374D848"),
        "7fffffff/fffffffe": ("LSN", "7FFFFFFF/FFFFFFFE"),
    },
    "oracle-cdc": {"2870000": ("SCN", "2870000"), "9223372036854775807": ("SCN", "9223372036854775807")},
    "mongodb-cdc": {
        TOKEN: ("resume token", TOKEN),
        "1767225600.7": ("timestamp", "1767225600.7"),
        "2026-01-31T12:00:00Z": ("timestamp", "1769860800.1"),
    },
    "kinesis-streams": {
        "latest": ("marker", "LATEST"),
        "trim_horizon": ("marker", "TRIM_HORIZON"),
        "at 49590338271490256608559692540925702759324208523137515618": (
            "sequence number",
            "at 49590338271490256608559692540925702759324208523137515618",
        ),
        "after 0": ("sequence number", "after 0"),
        "2026-01-31T12:00:00.250Z": ("timestamp", "2026-01-31T12:00:00.250+00:00"),
    },
    "pulsar": {
        "after 5123:77": ("message id", "after 5123:77"),
        "after 0:0": ("message id", "after 0:0"),
        "after 9223372036854775806:128": ("message id", "after 9223372036854775806:128"),
    },
    "kafka": {"0": ("offset", "0"), "9223372036854775807": ("offset", "9223372036854775807"),
              "latest": ("offset", "latest"), "committed": ("offset", "committed")},
}  # fmt: skip
"""Family of vectors → text → kind and position as `stateproc offsets` shows them."""
NO_POSITIONS = {
    "mysql-cdc": ["", "x", "mysql-bin.000044", "mysql-bin.000044:-1", "a:9223372036854775808", "2026-01-31T12:00:00",
                  "2026-01-31", "1969-12-31T23:59:59Z", "24bc7850-2c16-11e6-a073-0242ac110002:", "LATEST", ":4",
                  "a\ud800.1:4", "a.1:\u0661", "a b.1:4", "24bc7850-2c16-11e6-a073-0242ac110002:\u0661"],
    "postgres-cdc": ["", "0/0", "23876544", "earliest", "16/B374D8481", "FFFFFFFF/FFFFFFFF", "7FFFFFFF/FFFFFFFF"],
    "oracle-cdc": ["", "0", "-1", "latest", "9223372036854775808", "1.5", "\u0661"],
    "mongodb-cdc": ["", "{}", "[]", '{"_data": "826"}', '{"_data": 5}', '{"_data": "8264F1C0FF0000000A", "x": 1}',
                    "0.1", "2147483647.1", "5.2147483648", "latest", "[" * 5000],
    "kinesis-streams": ["", "49590338", "at", "at x", "at 1" + "0" * 60, "at \u0661", "earliest",
                        "2026-01-31T12:00:00", "1969-12-31T23:59:59Z"],
    "pulsar": ["", "latest", "5123:77", "after 5123", "after 5123:77:1", "after 9223372036854775807:0", "after -1:0"],
    "kafka": ["", "-1", "9223372036854775808", "1.5", "earlier", "2026-01-31T12:00:00Z"],
}  # fmt: skip


def kafka_vectors() -> list[Vector]:
    """A split of Kafka itself, of a cluster, and the one that a HybridSource wraps."""
    out = Output()
    out.utf("orders")
    out.i32(3)
    out.i64(17)
    out.i64(-(1 << 63))
    cluster = Output()
    cluster.utf("north")
    cluster.i32(0)
    plain = bytes(out)
    hybrid = [item for item in connector_vectors() if item.name == "hybrid-split-kafka"]
    made = [("split", 0, plain), ("cluster", 1, bytes(cluster) + plain)]
    return [
        *(Vector("kafka", name, "", FormatRole.SPLIT, Versioned(version, data), None) for name, version, data in made),
        *hybrid,
    ]


def streaming(family: str) -> list[tuple[Vector, ConnectorFormat, FormatRow]]:
    """The splits of a family whose positions can be set."""
    vectors = kafka_vectors() if family == "kafka" else [it for it in connector_vectors() if it.family == family]
    found = []
    for vector in vectors:
        if vector.role is FormatRole.SPLIT:
            known, row = accepted(vector)
            waiting = row.get("total_finished_splits", 0) > len(row.get("finished_splits", ()))
            if row.get("kind") != "snapshot" and not (row.get("suspended") or row.get("finished") or waiting):
                found.append((vector, known, row))
    return found


def moved(known: ConnectorFormat, row: FormatRow, text: str) -> FormatRow:
    assert known.moved is not None and known.positions is not None
    return known.moved(row, {position.split: text for position in known.positions(row)})


@pytest.mark.parametrize("family", MOVES)
def test_a_split_continues_at_the_position_that_was_set(family: str) -> None:
    found = streaming(family)
    assert found
    for vector, known, row in found:
        for text, expected in MOVES[family].items():
            if "bounded" in vector.name and text.startswith("binlog"):
                continue
            written = known.write(vector.item.version, moved(known, row, text))
            again = known.read(written)
            assert again is not None and known.positions is not None
            (position,) = known.positions(again)
            (before,) = known.positions(row)
            assert (position.kind, position.position) == expected
            assert (position.split, position.stops_at, position.phase) == (before.split, before.stops_at, before.phase)
            assert rest(again) == rest(row)


def rest(row: FormatRow) -> dict[str, Any]:
    """What a move leaves as it is."""
    own = {"starting_offset", "position_type", "timestamp_ms", "sequence_number", "message_id", "ledger", "entry",
           "message_partition", "batch_index", "batch_size", "wrapped_bytes", "kafka"}  # fmt: skip
    return {name: value for name, value in row.items() if name not in own}


@pytest.mark.parametrize("family", NO_POSITIONS)
def test_texts_that_are_no_positions_are_refused_with_the_forms(family: str) -> None:
    for _, known, row in streaming(family):
        for text in NO_POSITIONS[family]:
            with pytest.raises(InvalidOption, match="is no position of") as caught:
                moved(known, row, text)
            assert (caught.value.advice or "").startswith("give ")


def test_every_format_whose_positions_are_set_is_in_the_table() -> None:
    tested = {known.name for family in MOVES for _, known, _ in streaming(family)}
    assert {known.name for known in CONNECTOR_FORMATS if known.moved and known.role is FormatRole.SPLIT} == tested


def vector(name: str, version: int | None = None) -> tuple[Vector, ConnectorFormat, FormatRow]:
    found = next(item for item in connector_vectors() if item.name == name and version in (None, item.item.version))
    return found, *accepted(found)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mysql-snapshot-read-finished", "is a chunk of the snapshot"),
        ("mysql-binlog-suspended", "does not stream yet"),
        ("postgres-stream-suspended", "does not stream yet"),
        ("kinesis-split-at-timestamp-finished", "has been read to its end"),
        ("hybrid-1.20/SourceReaderState/0", "a HybridSource is at file, whose positions cannot be set"),
    ],
)
def test_splits_that_have_no_position_to_set(name: str, message: str) -> None:
    _, known, row = vector(name)
    with pytest.raises(InvalidOption, match=message) as caught:
        moved(known, row, "0/5" if "postgres" in name else "latest")
    assert caught.value.advice


def test_a_position_after_the_end_of_a_split_is_refused() -> None:
    _, known, row = vector("mysql-binlog-timestamp-bounded")
    assert moved(known, row, "mysql-bin.000050:4") and moved(known, row, "earliest")
    with pytest.raises(InvalidOption, match=r"mysql-bin.000050:5 is after mysql-bin.000050:4, where .* ends"):
        moved(known, row, "mysql-bin.000050:5")
    _, known, row = vector("postgres-stream-initial")
    ending = {**row, "ending_offset": [("lsn", str((22 << 32) + 5))]}
    assert moved(known, ending, "16/5")
    with pytest.raises(InvalidOption, match="16/6 is after 16/5"):
        moved(known, ending, "16/6")


def test_offsets_of_old_releases_keep_their_form() -> None:
    """Without a kind there is no time and no end of the binlog; version 1 has files and positions only."""
    _, known, row = vector("mysql-binlog-earliest")
    old = {**row, "starting_offset": [("file", "a.1"), ("pos", "4"), ("event", "2"), ("row", "1"), ("ts_sec", "7"),
                                      ("server_id", "9"), ("gtids", GTIDS)]}  # fmt: skip
    plain = {"ts_sec": "0", "row": "0", "event": "0", "file": "a.2", "pos": "5"}
    assert dict(moved(known, old, "a.2:5")["starting_offset"]) == plain
    assert dict(moved(known, old, "earliest")["starting_offset"]) == {**plain, "file": "", "pos": "0"}
    assert dict(moved(known, old, GTIDS)["starting_offset"]) == {**plain, "file": "", "pos": "0", "gtids": GTIDS}
    first = {**row, "starting_offset": [("file", "a.1"), ("pos", "4")]}
    assert dict(moved(known, first, "a.2:5")["starting_offset"]) == {"file": "a.2", "pos": "5"}
    for given, text in ((old, "latest"), (old, "2026-01-31T12:00:00Z"), (first, GTIDS), (first, "latest")):
        with pytest.raises(InvalidOption, match="is no position of MySQL's binlog"):
            moved(known, given, text)


@pytest.mark.parametrize("keys", [("change_lsn", "commit_lsn"), ("something",)])
def test_databases_whose_layout_was_not_compared_are_refused(keys: tuple[str, ...]) -> None:
    _, known, row = vector("postgres-stream-initial")
    with pytest.raises(InvalidOption, match="cannot be set"):
        moved(known, {**row, "starting_offset": [(key, "1") for key in keys]}, "0/5")


def test_a_new_position_has_nothing_of_the_transaction_before() -> None:
    _, known, row = vector("postgres-stream")
    assert {"lsn_proc", "lsn_commit", "txId"} < dict(row["starting_offset"]).keys()
    assert dict(moved(known, row, "0/5")["starting_offset"]) == {"lsn": "5", "ts_usec": "0"}
    _, known, row = vector("oracle-stream-initial")
    ran = {**row, "starting_offset": [("scn", "9"), ("commit_scn", "8"), ("lcr_position", "x")]}
    found = dict(moved(known, ran, "7")["starting_offset"])
    assert found == {"scn": "7", "commit_scn": "0", "lcr_position": None}


@pytest.mark.parametrize("version", [0, 1])
def test_shards_that_the_enumerator_has_move_there(version: int) -> None:
    found, known, row = vector("kinesis-enumerator", 1)
    assert known.moved is not None and known.positions is not None
    names = [position.split for position in known.positions(row)]
    changed = known.moved(row, {names[0]: "latest", "elsewhere/shard": "latest"})
    again = known.read(known.write(version, {**changed, "last_seen_shard_id": None}))
    assert again is not None
    (first, *others) = known.positions(again)
    assert first.position == "LATEST"
    assert [item.position for item in others] == [item.position for item in list(known.positions(row))[1:]]
    assert found.item.version == 1


def test_cautions_say_what_a_position_means() -> None:
    cases = {
        ("mysql-binlog-gtid", "2026-01-31T12:00:00Z"): ["binlog file of that time", "columns", "changes of a chunk"],
        ("mysql-binlog-gtid", "a.1:4"): ["columns", "changes of a chunk"],
        ("mysql-binlog-earliest", "latest"): [],
        ("postgres-stream", "0/5"): ["confirmed_flush_lsn", "changes of a chunk"],
        ("mongodb-cdc-stream-initial", "5.1"): [],
        ("hybrid-split-kafka", "5"): [],
    }
    for (name, text), expected in cases.items():
        _, known, row = vector(name)
        found = list(known.cautions(moved(known, row, text)))
        assert len(found) == len(expected)
        assert all(words in said for words, said in zip(expected, found, strict=True))


def with_factory(row: FormatRow, stream: bytes, name: str) -> FormatRow:
    finished = [{**item, "factory_stream": stream, "offset_factory": name} for item in row["finished_splits"]]
    return {**row, "finished_splits": finished}


@pytest.mark.parametrize(
    ("vector_name", "name"),
    [
        ("postgres-stream", "postgres.source.offset.PostgresOffsetFactory"),
        ("mongodb-cdc-stream", "mongodb.source.offset.ChangeStreamOffsetFactory"),
    ],
)
def test_classes_of_flink_cdc_2_get_the_names_of_3(vector_name: str, name: str) -> None:
    """As the vectors of 3.5 have them, whatever the serialVersionUID was."""
    found, known, row = vector(vector_name, 6)
    assert known.renamed is not None
    old = with_factory(row, OLD_FACTORY, OLD_PACKAGE + name)
    assert known.write(6, known.renamed(old)) == found.item
    assert known.renamed(row) == row


WRITTEN_BY_JAVA = {
    "oracle.source.meta.offset.RedoLogOffsetFactory": (
        "aced00057372004e6f72672e6170616368652e666c696e6b2e6364632e636f6e6e6563746f72732e6f7261636c652e736f75"
        "7263652e6d6574612e6f66667365742e5265646f4c6f674f6666736574466163746f72790000000000000001020000787200"
        "456f72672e6170616368652e666c696e6b2e6364632e636f6e6e6563746f72732e626173652e736f757263652e6d6574612e"
        "6f66667365742e4f6666736574466163746f727900000000000000010200007870"
    ),
    "sqlserver.source.offset.LsnFactory": (
        "aced0005737200426f72672e6170616368652e666c696e6b2e6364632e636f6e6e6563746f72732e73716c7365727665722e"
        "736f757263652e6f66667365742e4c736e466163746f7279cb1e1092ff9af67c020000787200456f72672e6170616368652e"
        "666c696e6b2e6364632e636f6e6e6563746f72732e626173652e736f757263652e6d6574612e6f66667365742e4f66667365"
        "74466163746f727900000000000000010200007870"
    ),
}
"""What Java writes of the factories of 3.5.0."""


@pytest.mark.parametrize("name", WRITTEN_BY_JAVA)
def test_offset_factories_are_what_java_writes(name: str) -> None:
    _, known, row = vector("postgres-stream", 6)
    assert known.renamed is not None
    renamed = known.renamed(with_factory(row, OLD_FACTORY, OLD_PACKAGE + name))
    assert {item["factory_stream"].hex() for item in renamed["finished_splits"]} == {WRITTEN_BY_JAVA[name]}
    again = known.read(known.write(6, renamed))
    assert again is not None
    assert {item["offset_factory"] for item in again["finished_splits"]} == {NEW_PACKAGE + name}


def test_a_class_of_an_unknown_database_is_refused() -> None:
    _, known, row = vector("postgres-stream", 6)
    assert known.renamed is not None
    with pytest.raises(UnsupportedSnapshot, match=r"db2\.source\.offset\.LsnFactory") as caught:
        known.renamed(with_factory(row, OLD_FACTORY, f"{OLD_PACKAGE}db2.source.offset.LsnFactory"))
    assert caught.value.advice
