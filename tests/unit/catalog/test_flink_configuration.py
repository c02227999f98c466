"""Flink's configuration: both kinds of files as Flink parses them, keys of all releases.

What is expected of files is what ``GlobalConfiguration.loadConfiguration`` of Flink 1.20.3 and 2.3.0 returned for them.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import stateproc
from stateproc.catalog.flink_configuration import EARLIER_NAMES
from stateproc.errors import InvalidOption, MissingFile
from tests.helpers.paths import ROOT

KEYS = json.loads((ROOT / "tests/vectors/flink-option-keys.json").read_text())
"""Release → key → its earlier names, in order, as the option classes of that release's jars report them."""

LEGACY = """\
# comment
state.checkpoints.dir: s3://b/chk # trailing
state.savepoints.dir:s3://nospace
state.backend:   rocksdb\x20\x20
quoted: "a b"
with.colon: hdfs://nn:8020/x: y
hash: pa#ss
empty:
  indented.key: 1
dup: 1
dup: 2
tab:\tx
list: a;b
"""
YAML = """\
state:
  backend:
    type: rocksdb
    incremental: on
    rocksdb:
      block.cache-size: 64mb
  checkpoints.dir: s3://b/chk # trailing
execution.checkpointing:
  savepoint-dir: "s3://b/save point"
  interval: 10 min
  num-retained: 3
pa: a#b
yes: yes
list: [a, b, 3]
list2:
  - x
  - y
multi: |
  a
  b
copied: &x 1
alias: *x
"""


def write(directory: Path, name: str, text: str) -> Path:
    path = directory / name
    path.write_text(text, encoding="utf-8")
    return path


def test_lines_of_flink_conf(tmp_path: Path) -> None:
    path = write(tmp_path, "flink-conf.yaml", LEGACY)
    assert stateproc.flink_configuration(path).values == {
        "state.checkpoints.dir": "s3://b/chk",
        "state.backend": "rocksdb",
        "quoted": '"a b"',
        "with.colon": "hdfs://nn:8020/x: y",
        "hash": "pa",
        "indented.key": "1",
        "dup": "2",
        "list": "a;b",
    }


def test_yaml_of_config_yaml(tmp_path: Path) -> None:
    assert stateproc.flink_configuration(write(tmp_path, "config.yaml", YAML)).values == {
        "state.backend.type": "rocksdb",
        "state.backend.incremental": "on",
        "state.backend.rocksdb.block.cache-size": "64mb",
        "state.checkpoints.dir": "s3://b/chk",
        "execution.checkpointing.savepoint-dir": "s3://b/save point",
        "execution.checkpointing.interval": "10 min",
        "execution.checkpointing.num-retained": "3",
        "pa": "a#b",
        "yes": "yes",
        "list": "[a, b, 3]",
        "list2": "[x, y]",
        "multi": "a\nb\n",
        "copied": "1",
        "alias": "1",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\na: 2\n", "the key a is there twice, line 2"),
        ("- a\n- b\n", "contains no keys"),
        ("a: 1\n---\nb: 2\n", "no YAML"),
        ("state.backend: rocksdb\n  bad: 1\n", "no YAML"),
        ("? [a]\n: 1\n", "a key that is no text"),
        ("a: &a {b: *a}\n", "nested too deeply"),
        ("a: &a {}\n" + "".join(f"k{i}: &k{i} {{x: *k{i - 1}, y: *k{i - 1}}}\n" for i in range(1, 3)), "no YAML"),
        (
            "k0: &k0 {x: {}}\n" + "".join(f"k{i}: &k{i} {{x: *k{i - 1}, y: *k{i - 1}}}\n" for i in range(1, 40)),
            "too many keys",
        ),
    ],
)
def test_files_that_flink_refuses(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match=message):
        stateproc.flink_configuration(write(tmp_path, "config.yaml", text))


def test_an_empty_file_and_nulls_say_nothing(tmp_path: Path) -> None:
    assert stateproc.flink_configuration(write(tmp_path, "config.yaml", "")).values == {}
    path = write(tmp_path, "config.yaml", "state.checkpoints.dir:\nstate.savepoints.dir: null\n")
    assert stateproc.flink_configuration(path).directories == ()


def test_earlier_names_are_those_of_flinks_own_options() -> None:
    for release in ("1.20", "2.3"):
        for key, names in KEYS[release].items():
            # Flink 2.x dropped a name of 1.x now and then; a file of 1.x may still have it.
            assert [name for name in EARLIER_NAMES.get(key, ()) if name in names] == names, key
    known = {*KEYS["1.20"], *KEYS["2.3"]}
    assert {*EARLIER_NAMES} <= known


@pytest.mark.parametrize("release", ["1.8", "1.13"])
def test_keys_of_old_releases_are_found_under_present_names(release: str, tmp_path: Path) -> None:
    present = {*KEYS["1.20"], *KEYS["2.3"]}
    for key, names in KEYS[release].items():
        for name in (key, *names):
            (tmp_path / "flink-conf.yaml").write_text(f"{name}: x\n")
            found = stateproc.flink_configuration(tmp_path).setting(name)
            assert found is not None and (found.value, found.written_as) == ("x", name)
            # The one key that went without a successor.
            assert found.key in present or name == "state.backend.rocksdb.ttl.compaction.filter.enabled"


def test_the_present_name_counts_then_earlier_ones_in_flinks_order(tmp_path: Path) -> None:
    lines = [
        "state.backend.fs.checkpointdir: /oldest",
        "state.checkpoints.dir: /old",
        "execution.checkpointing.dir: /new",
    ]
    for count, expected in enumerate(("/oldest", "/old", "/new"), 1):
        (tmp_path / "flink-conf.yaml").write_text("\n".join(lines[:count]))
        assert stateproc.flink_configuration(tmp_path).checkpoint_directory == expected


@pytest.mark.parametrize(
    ("given", "backend"),
    [
        ("rocksdb", "rocksdb"),
        ("RocksDB", "rocksdb"),
        ("org.apache.flink.contrib.streaming.state.EmbeddedRocksDBStateBackendFactory", "rocksdb"),
        ("org.apache.flink.contrib.streaming.state.RocksDBStateBackendFactory", "rocksdb"),
        ("filesystem", "hashmap"),
        ("jobmanager", "hashmap"),
        ("hashmap", "hashmap"),
        ("forst", "forst"),
        ("com.example.Factory", "com.example.Factory"),
    ],
)
def test_backends_of_all_releases(given: str, backend: str, tmp_path: Path) -> None:
    configuration = stateproc.flink_configuration(write(tmp_path, "flink-conf.yaml", f"state.backend: {given}\n"))
    assert configuration.backend == backend


def test_meaning(tmp_path: Path) -> None:
    text = "state:\n  backend: {type: rocksdb, incremental: true, changelog.enabled: true}\n"
    configuration = stateproc.flink_configuration(write(tmp_path, "config.yaml", text))
    assert (configuration.incremental, configuration.changelog) == (True, True)
    empty = stateproc.flink_configuration(write(tmp_path, "config.yaml", "a: b\n"))
    assert (empty.backend, empty.incremental, empty.changelog, empty.settings) == (None, False, False, ())


def test_directories_as_flink_finds_them(tmp_path: Path) -> None:
    text = (
        "fs.default-scheme: hdfs://nn:8020/\ns3.entropy.key: _entropy_\n"
        "state.checkpoints.dir: s3://bucket/_entropy_/checkpoints\nstate.savepoints.dir: /savepoints/\n"
    )
    configuration = stateproc.flink_configuration(write(tmp_path, "flink-conf.yaml", text))
    assert configuration.directories == ("s3://bucket/checkpoints", "hdfs://nn:8020/savepoints")
    (tmp_path / "flink-conf.yaml").write_text("state.checkpoints.dir: file:///data/x\nstate.savepoints.dir: /data/x\n")
    assert stateproc.flink_configuration(tmp_path).directories == ("/data/x",)


def test_settings_about_snapshots_under_present_names_without_secrets(tmp_path: Path) -> None:
    text = (
        "s3.secret-key: hush\nstate.backend: rocksdb\nstate.backend.rocksdb.checkpointdir: /fast\n"
        "state.backend.rocksdb.block.blocksize: 8kb\ntaskmanager.numberOfTaskSlots: 2\n"
    )
    configuration = stateproc.flink_configuration(write(tmp_path, "flink-conf.yaml", text))
    assert [(item.key, item.value, item.written_as) for item in configuration.settings] == [
        ("state.backend.type", "rocksdb", "state.backend"),
        ("state.backend.rocksdb.block.blocksize", "8kb", "state.backend.rocksdb.block.blocksize"),
        ("state.backend.rocksdb.localdir", "/fast", "state.backend.rocksdb.checkpointdir"),
    ]
    assert "hush" not in repr(configuration) and "hush" not in json.dumps(configuration.to_dict())


def test_the_directory_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(MissingFile, match=r"neither config\.yaml nor flink-conf\.yaml"):
        stateproc.flink_configuration(tmp_path)
    write(tmp_path, "config.yaml", "a: b\n")
    assert stateproc.flink_configuration(tmp_path).path == str(tmp_path / "config.yaml")
    write(tmp_path, "flink-conf.yaml", "a: b\n")
    with pytest.raises(InvalidOption, match="both"):
        stateproc.flink_configuration(tmp_path)
    with pytest.raises(MissingFile, match="no such Flink configuration"):
        stateproc.flink_configuration(tmp_path / "nothing.yaml")


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_bytes(b"a: \xff\xfe\n")
    with pytest.raises(InvalidOption, match="no text in UTF-8"):
        stateproc.flink_configuration(tmp_path)


def test_names_are_found_below_the_directories(tmp_path: Path) -> None:
    """A path that exists counts; then checkpoints, then savepoints."""
    for name in ("checkpoints/job", "savepoints/savepoint-1", "savepoints/job"):
        (tmp_path / name).mkdir(parents=True)
    text = f"state.checkpoints.dir: {tmp_path}/checkpoints\nstate.savepoints.dir: {tmp_path}/savepoints\n"
    configuration = stateproc.flink_configuration(write(tmp_path, "flink-conf.yaml", text))
    assert configuration.find("job") == f"{tmp_path}/checkpoints/job"
    assert configuration.find("savepoint-1/") == f"{tmp_path}/savepoints/savepoint-1/"
    assert configuration.find("tests") == "tests"
    assert configuration.find("/none") == "/none"
    assert configuration.find("s3://none/at-all") == "s3://none/at-all"
    with pytest.raises(MissingFile, match=r"no 'none' here, nor in .*checkpoints or .*savepoints"):
        configuration.find("none")
