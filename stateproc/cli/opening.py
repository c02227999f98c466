"""Open the snapshot that a command names, with the options all commands share."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

import stateproc
from stateproc.errors import InvalidOption, MissingFile
from stateproc.options import storage_value

if TYPE_CHECKING:
    from stateproc.snapshot.snapshot import Snapshot


def add_opening(parser: ArgumentParser) -> None:
    """The arguments with which a snapshot is found and opened."""
    parser.add_argument("path", metavar="PATH", help="the snapshot's directory, its _metadata, or a checkpoint root")
    group = parser.add_argument_group("opening")
    group.add_argument("--uids", metavar="A,B", help="uids of the job, to name operators of Flink 1.x snapshots")
    group.add_argument("--classes", metavar="FILE", help="JSON file that describes user classes")
    group.add_argument("--plugins", metavar="A,B", help="Python modules that register parsers")
    group.add_argument("--kryo", type=int, choices=(2, 5), help="Kryo's version; by default the release's")
    group.add_argument(
        "--key-type", metavar="TYPE", help="the keys' type (or JSON, uid to type) where a changelog does not hold it"
    )
    group.add_argument("--no-verify", action="store_true", help="do not check the checksums of RocksDB's blocks")
    group.add_argument(
        "--moved",
        metavar="OLD=NEW",
        action="append",
        default=[],
        help="a prefix of files' paths and where they are now",
    )
    group.add_argument(
        "--storage",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a setting of the file system (fsspec)",
    )


def open_snapshot(
    arguments: Namespace, temporal: str = "micros", *, path: str | None = None, tell: bool = True
) -> Snapshot:
    """The snapshot that the arguments name, or that at ``path``; what was chosen where that left a choice is told on
    stderr. Raises SnapshotError."""
    snapshot = stateproc.open(
        path or arguments.path,
        uids=_names(arguments.uids),
        classes=None if arguments.classes is None else _classes(arguments.classes),
        plugins=_names(arguments.plugins),
        temporal=temporal,
        kryo=arguments.kryo,
        verify=not arguments.no_verify,
        key_type=arguments.key_type,
        path_mapping=_pairs("--moved", arguments.moved) or None,
        storage_options={name: storage_value(text) for name, text in _pairs("--storage", arguments.storage).items()},
    )
    if snapshot.note and tell:
        print(snapshot.note, file=sys.stderr)
    return snapshot


def _names(text: str | None) -> list[str]:
    return [item.strip() for item in (text or "").split(",") if item.strip()]


def _classes(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MissingFile(f"--classes: {error}", advice="a JSON file, see docs/kryo-and-classes.md") from error


def _pairs(flag: str, texts: list[str]) -> dict[str, str]:
    for text in texts:
        if "=" not in text:
            raise InvalidOption(f"{flag} {text}", advice=f"write {flag} name=value")
    return dict(text.split("=", 1) for text in texts)
