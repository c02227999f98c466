"""MANIFEST and CURRENT files that lie with right checksums: the typed error, soon and in little memory."""

from __future__ import annotations

from functools import partial

import pytest

from stateproc.errors import SnapshotError
from tests.helpers.damage.crafted_databases import Files, check, complete, listed, manifest
from tests.helpers.damage.crafted_tables import FIRST, LAST, MIDDLE, Crafted, internal, log_record, new_file, varint
from tests.helpers.rocksdb.databases import contents, inline

ENDLESS = b"\xff" * 24


def group(left: int) -> bytes:
    """VersionEdit's kInAtomicGroup: how many more changes take effect together with this one."""
    return varint(300) + varint(left)


def test_logs_that_never_end() -> None:
    edit = new_file(7, len(Crafted()()), internal(b"\0000", 7), internal(b"\0059", 7))
    middle = log_record(bytes(32768 - 7), MIDDLE)
    check(
        [
            ("first only", partial(manifest, log_record(edit, FIRST))),
            ("middle only", partial(manifest, log_record(edit, MIDDLE))),
            ("last only", partial(manifest, log_record(edit, LAST))),
            ("first twice", partial(manifest, log_record(edit, FIRST), log_record(edit, FIRST))),
            ("full within", partial(manifest, log_record(edit, FIRST), log_record(edit))),
            ("300 middles", partial(manifest, log_record(bytes(32768 - 7), FIRST), *[middle] * 300)),
            ("200,000 empty parts", partial(manifest, log_record(edit, FIRST), *[log_record(b"", MIDDLE)] * 200_000)),
            ("a record longer than its block", partial(manifest, log_record(edit, length=0xFFFF))),
            ("a longer record than there is", partial(manifest, log_record(edit, length=len(edit) + 1))),
            ("type 0", partial(manifest, log_record(edit, 0))),
            ("type 77", partial(manifest, log_record(edit, 77))),
            ("a group without end", partial(manifest, *[log_record(edit + group(9))] * 3)),
            (
                "a group that counts wrong",
                partial(manifest, *(log_record(edit + varint(300) + varint(n)) for n in (9, 7, 0))),
            ),
            ("a group of 2 ** 64", partial(manifest, log_record(edit + group((1 << 64) - 1)))),
        ],
        ("200,000 empty records", partial(complete, partial(manifest, log_record(edit), *[log_record(b"")] * 200_000))),
    )


def test_changes_of_a_manifest_that_lie() -> None:
    bounds = (internal(b"\0000", 7), internal(b"\0059", 7))
    size = len(Crafted()())
    edits = {
        "endless": ENDLESS,
        "an endless field": varint(2) + ENDLESS,
        "an unknown field": varint(99) + b"\0",
        "blob files": varint(400) + b"\0",
        "a name beyond the record": varint(201) + varint(1 << 40),
        "level 2 ** 40": varint(100) + varint(1 << 40),
        "keys the wrong way round": new_file(7, size, bounds[1], bounds[0]),
        "a key of 7 bytes": new_file(7, size, b"1234567", bounds[1]),
        "another size": new_file(7, size + 1, *bounds),
        "size 2 ** 63": new_file(7, 1 << 63, *bounds),
        "a file that is not there": new_file(8, size, *bounds),
        "number 2 ** 64 - 1": new_file((1 << 64) - 1, size, *bounds),
        "family 9": varint(200) + varint(9) + new_file(7, size, *bounds),
        "family 2 ** 33": varint(200) + varint(1 << 33) + new_file(7, size, *bounds),
        "dropped": varint(202),
    }
    found = [(name, partial(manifest, log_record(edit))) for name, edit in edits.items()]
    again = log_record(varint(200) + varint(1) + varint(201) + b"\1a")
    check([*found, ("a family twice", partial(manifest, again, again))])


def test_a_manifest_of_very_many_files() -> None:
    """Each takes 37 bytes there, and far more once it is read."""

    def many(count: int, at_once: int) -> Files:
        edits = [new_file(k, 1, internal(b"", 7), internal(b"", 7)) for k in range(100, 100 + count)]
        groups = [b"".join(edits[k : k + at_once]) for k in range(0, count, at_once)]
        return manifest(*(log_record(group) for group in groups))

    check([(f"{count} by {n}", partial(many, count, n)) for count, n in ((60_000, 1), (300_000, 800))])


@pytest.mark.parametrize(
    "current",
    [
        b"",
        b"\n",
        b"MANIFEST-000002\n",
        b"../MANIFEST-000001\n",
        b"/etc/passwd\n",
        b"\xff" * 40,
        b"M" * 5000,
        b"CURRENT\n",
    ],
)  # fmt: skip
def test_current_files_that_name_something_else(current: bytes) -> None:
    with pytest.raises(SnapshotError) as caught:
        contents(inline(listed(Crafted()) | {"CURRENT": current}), "default")
    assert (caught.value.where.file, caught.value.where.offset) == ("CURRENT", 0)
