"""Exported files contain exactly the rows of the states, in every format; interrupted exports continue."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest

import stateproc
from stateproc.errors import InvalidOption, NotFound, WriteFailed
from stateproc.export import ExportManifest
from stateproc.export.directory import FolderNames, folder_name
from stateproc.export.manifest import ExportedState
from stateproc.model.operator_state import opened_state
from stateproc.model.state import State
from stateproc.row_formats.json_values import json_lines
from tests.helpers.fixtures import FIXTURES, Fixture, newest_fixtures, unknown_type_fixtures

READS_EVERY_MODE = False

DEMO = str(FIXTURES / "1.20/demo/snapshot")
UIDS = ["orders-from-kafka", "orders-per-customer", "revenue-per-product"]


def demo() -> stateproc.Snapshot:
    return stateproc.open(DEMO, uids=UIDS)


def state_of(snapshot: stateproc.Snapshot, entry: ExportedState, temporal: str = "micros") -> State:
    operator = next(item for item in snapshot.operators if item.operator_id == entry.operator_id)
    found = (item for item in operator.states if (item.name, item.distribution) == (entry.state, entry.distribution))
    return opened_state(next(found).with_temporal(temporal))


def files_of(manifest: ExportManifest, entry: ExportedState) -> list[Path]:
    return [Path(manifest.directory, file.path) for file in entry.files]


def without_empty_structs(table: pa.Table) -> pa.Table:
    """Parquet stores a struct without fields with a field that is null."""
    from stateproc.row_formats.column_types import parquet_batch, parquet_schema

    schema = parquet_schema(table.schema)
    return pa.Table.from_batches([parquet_batch(batch, schema) for batch in table.to_batches()], schema)


def assert_parquet_equals(manifest: ExportManifest, entry: ExportedState, state: State) -> None:
    tables = [pa.parquet.read_table(file, partitioning=None) for file in files_of(manifest, entry)]
    found, expected = pa.concat_tables(tables), without_empty_structs(state.to_arrow())
    assert found.schema.equals(expected.schema), entry
    # NaN equals NaN in JSON only.
    assert found.equals(expected) or lines_of(found) == lines_of(expected), entry


def lines_of(table: pa.Table) -> list[str]:
    return [line for batch in table.to_batches() for line in json_lines(batch)]


def test_all_states_timers_and_offsets_are_exported(tmp_path: Path) -> None:
    manifest = demo().export(str(tmp_path / "out"))
    assert manifest.status == "complete"
    assert {(entry.operator, entry.state, entry.rows) for entry in manifest.states} >= {
        ("orders-per-customer", "profile", 300),
        ("orders-per-customer", "event timers", 300),
        ("orders-from-kafka", "SourceReaderState", 5),
        (None, "offsets", 6),
    }
    for entry in manifest.states:
        if entry.operator is not None:
            assert_parquet_equals(manifest, entry, state_of(demo(), entry))
    offsets = pa.parquet.read_table(tmp_path / "out/offsets")
    assert sorted(offsets.column("partition").to_pylist()) == [0, 1, 2, 3, 4, 5]
    saved = json.loads((tmp_path / "out/manifest.json").read_text())
    assert saved == json.loads(json.dumps(manifest.to_dict()))


@pytest.mark.parametrize("fixture", newest_fixtures(), ids=lambda item: item.name)
def test_every_fixture_is_exported_exactly(fixture: Fixture, tmp_path: Path) -> None:
    snapshot = fixture.open()
    manifest = snapshot.export(str(tmp_path / "out"), threads=2)
    readable = [entry for entry in manifest.states if entry.operator is not None and entry.status == "complete"]
    assert readable
    for entry in readable:
        assert_parquet_equals(manifest, entry, state_of(snapshot, entry))
    for entry in manifest.unreadable:
        with pytest.raises(stateproc.SnapshotError):
            state_of(snapshot, entry).to_arrow()


def test_arrow_files(tmp_path: Path) -> None:
    manifest = demo().export(str(tmp_path / "out"), format="arrow")
    for entry in manifest.states[:-1]:
        (file,) = files_of(manifest, entry)
        assert pa.ipc.open_file(file).read_all().equals(state_of(demo(), entry).to_arrow())


@pytest.mark.parametrize("compression", ["gzip", "none"])
def test_json_lines(tmp_path: Path, compression: str) -> None:
    manifest = demo().export(str(tmp_path / "out"), format="jsonl", compression=compression)
    for entry in manifest.states[:-1]:
        (file,) = files_of(manifest, entry)
        text = gzip.decompress(file.read_bytes()) if compression == "gzip" else file.read_bytes()
        rows = state_of(demo(), entry, "exact").to_arrow()
        assert text.decode().splitlines() == lines_of(rows)


def test_csv(tmp_path: Path) -> None:
    manifest = demo().export(str(tmp_path / "out"), format="csv", uids=["orders-per-customer"], states=["profile"])
    (entry,) = manifest.states
    rows = list(csv.DictReader(io.StringIO(files_of(manifest, entry)[0].read_text())))
    expected = state_of(demo(), entry, "exact").to_arrow().to_pylist()
    assert [(int(row["key"]), json.loads(row["value"])) for row in rows] == [
        (row["key"], row["value"]) for row in expected
    ]


@pytest.mark.parametrize("ranges", [None, 3])
def test_delta_tables(tmp_path: Path, ranges: int | None) -> None:
    manifest = demo().export(str(tmp_path / "out"), format="delta", key_group_ranges=ranges)
    for entry in manifest.states[:-1]:
        table = pa.table(deltalake.DeltaTable(tmp_path / "out" / str(entry.folder)).to_pyarrow_table())
        if ranges and entry.distribution == "keyed":
            groups = table.column("key_groups").to_pylist()
            assert set(groups) <= {"0-42", "43-85", "86-127"}
            table = table.drop_columns(["key_groups"])
        expected = state_of(demo(), entry).to_arrow()
        order = [(name, "ascending") for name in expected.column_names if not pa.types.is_nested(expected[name].type)]
        nullable = pa.schema([field.with_nullable(True) for field in expected.schema])
        assert table.sort_by(order).to_pylist() == expected.cast(nullable).sort_by(order).to_pylist()


def test_partitions_of_key_groups_are_hive_folders(tmp_path: Path) -> None:
    manifest = demo().export(str(tmp_path / "out"), states=["profile"], key_group_ranges=4)
    (entry,) = manifest.states
    assert [file.path.split("/")[2] for file in entry.files] == [
        "key_groups=0-31",
        "key_groups=32-63",
        "key_groups=64-95",
        "key_groups=96-127",
    ]
    found = pa.dataset.dataset(tmp_path / "out/orders-per-customer/profile", partitioning="hive").to_table()
    expected = state_of(demo(), entry).to_arrow()
    assert found.drop_columns(["key_groups"]).equals(expected)
    for row in found.select(["key_group", "key_groups"]).to_pylist():
        first, last = map(int, row["key_groups"].split("-"))
        assert first <= row["key_group"] <= last


def test_exact_times_of_day_become_text_of_delta_and_keep_their_type_in_parquet(tmp_path: Path) -> None:
    from stateproc.export.file_formats import EXPORT_FORMATS

    schema = pa.schema(
        [("t", pa.list_(pa.time64("us"))), ("n", pa.struct([])), ("d", pa.decimal256(50, 2)), ("u", pa.uint64())]
    )
    row = {"t": [1, None], "n": {}, "d": None, "u": 2**64 - 1}
    batch = pa.RecordBatch.from_pylist([row, dict.fromkeys(schema.names)], schema)
    stream = io.BytesIO()
    with EXPORT_FORMATS["delta"].make(stream, schema, "zstd") as writer:
        writer.write(batch)
    assert pa.parquet.read_table(io.BytesIO(stream.getvalue())).to_pylist() == [
        {"t": ["00:00:00.000001", None], "n": {"_": None}, "d": None, "u": 2**64 - 1},
        dict.fromkeys(schema.names),
    ]


class Interrupted(Exception):
    """What ends a run in the middle."""


def test_an_interrupted_export_continues(tmp_path: Path) -> None:
    calls: list[int] = []

    def start(_: int) -> Any:
        def advance(size: int) -> None:
            calls.append(size)
            if len(calls) == 4:
                raise Interrupted

        return advance

    directory = tmp_path / "out"
    with pytest.raises(Interrupted):
        demo().export(str(directory), key_group_ranges=2, threads=1, _start=start)
    saved = json.loads((directory / "manifest.json").read_text())
    assert saved["status"] == "incomplete"
    kept = {
        file["path"]: (directory / file["path"]).stat().st_mtime_ns
        for state in saved["states"]
        for file in state["files"]
    }
    assert len(kept) == 3
    manifest = demo().export(str(directory), key_group_ranges=2)
    assert manifest.status == "complete"
    assert {path: (directory / path).stat().st_mtime_ns for path in kept} == kept
    assert not list(directory.rglob(".part-*"))
    listed = {file.path for entry in manifest.states for file in entry.files}
    assert {str(path.relative_to(directory)) for path in directory.rglob("*.parquet")} == listed
    for entry in manifest.states[:-1]:
        assert_parquet_equals(manifest, entry, state_of(demo(), entry))


def test_states_are_added_to_an_export(tmp_path: Path) -> None:
    directory = str(tmp_path / "out")
    assert len(demo().export(directory, states=["profile"]).states) == 1
    written = (tmp_path / "out/orders-per-customer/profile").stat().st_mtime_ns
    assert len(demo().export(directory).states) == 9
    assert (tmp_path / "out/orders-per-customer/profile").stat().st_mtime_ns == written


def test_another_snapshot_is_refused_and_overwritten_on_request(tmp_path: Path) -> None:
    directory = str(tmp_path / "out")
    demo().export(directory)
    other = stateproc.open(str(FIXTURES / "1.20/windows-hashmap-canonical/snapshot"))
    with pytest.raises(InvalidOption, match="another snapshot"):
        other.export(directory)
    with pytest.raises(InvalidOption, match="other settings: format parquet"):
        demo().export(directory, format="csv")
    manifest = other.export(directory, overwrite=True)
    listed = {file.path for entry in manifest.states for file in entry.files}
    assert {str(path.relative_to(directory)) for path in Path(directory).rglob("*.parquet")} == listed


def test_other_files_are_not_touched(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(InvalidOption, match="no export"):
        demo().export(str(tmp_path), overwrite=True)
    (tmp_path / "out").mkdir()
    (tmp_path / "out/manifest.json").write_text('{"manifest_version": 1, "states": [[]]}')
    with pytest.raises(stateproc.CorruptSnapshot, match="not the manifest"):
        demo().export(str(tmp_path / "out"), overwrite=True)


def test_a_manifest_cannot_name_files_outside(tmp_path: Path) -> None:
    directory = tmp_path / "out"
    demo().export(str(directory), states=["profile"])
    (tmp_path / "precious").write_text("x")
    saved = json.loads((directory / "manifest.json").read_text())
    saved["states"][0]["files"][0]["path"] = "../precious"
    (directory / "manifest.json").write_text(json.dumps(saved))
    demo().export(str(directory), states=["profile"], overwrite=True)
    assert (tmp_path / "precious").exists()


def test_unreadable_states_do_not_stop_the_others(tmp_path: Path) -> None:
    fixture = unknown_type_fixtures("hashmap-canonical")[0]
    manifest = fixture.open().export(str(tmp_path / "out"))
    assert manifest.status == "partial"
    assert manifest.unreadable and len(manifest.unreadable) < len(manifest.states)
    assert all(entry.problem for entry in manifest.unreadable)


def test_file_systems_of_fsspec(tmp_path: Path) -> None:
    import fsspec

    manifest = demo().export("memory:///exports/one", states=["profile"])
    assert manifest.status == "complete"
    with fsspec.open(f"memory:///exports/one/{manifest.states[0].files[0].path}") as file:
        assert pa.parquet.read_table(file).equals(state_of(demo(), manifest.states[0]).to_arrow())
    assert demo().export("memory:///exports/one", states=["profile"]).rows == 300


def test_a_full_disk_is_reported_and_the_export_continues(tmp_path: Path) -> None:
    directory = tmp_path / "out"
    demo().export(str(directory), states=["profile"])
    (directory / "revenue-per-product").write_text("in the way")
    with pytest.raises(WriteFailed):
        demo().export(str(directory))
    (directory / "revenue-per-product").unlink()
    assert demo().export(str(directory)).status == "complete"


def test_arguments_are_checked(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    for arguments in ({"format": "orc"}, {"format": "csv", "compression": "zstd"}, {"key_group_ranges": 0}):
        with pytest.raises(InvalidOption):
            demo().export(out, **arguments)  # type: ignore[arg-type]
    with pytest.raises(NotFound, match="profil"):
        demo().export(out, states=["profil"])
    with pytest.raises(NotFound):
        demo().export(out, uids=["customers"])
    assert not Path(out).exists()


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("profile", "profile"),
        ("event timers", "event-timers"),
        ("../etc", "%2E.%2Fetc"),
        ("_spark_metadata", "%5Fspark_metadata"),
        ("a=b/c\x00", "a%3Db%2Fc%00"),
        ("", "%"),
    ],
)
def test_folder_names(name: str, folder: str) -> None:
    assert folder_name(name) == folder


def test_folder_names_are_short_and_unique() -> None:
    assert len(folder_name("x" * 400)) <= 120
    assert folder_name("x" * 400) != folder_name("x" * 401)
    names = FolderNames()
    assert [names.take("a", "b"), names.take("a", "B"), names.take("a", "b")] == ["a/b", "a/B-2", "a/b-3"]
