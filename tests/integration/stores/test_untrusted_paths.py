"""A ``_metadata`` that names files in another bucket, or on a local disk, is not followed there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import stateproc
from stateproc.errors import UntrustedPath
from stateproc.writers.savepoint_writer import SavepointWriter
from tests.helpers.damage.foreign_files import foreign_copy
from tests.helpers.fixtures import fixtures
from tests.helpers.stores.object_store import BUCKET, Store, object_store

OTHER = "foreign"
OPERATOR = "kitchen-string"


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with object_store() as made:
        made.client.create_bucket(Bucket=OTHER)
        yield made


def test_files_in_another_bucket_are_read_only_if_it_is_allowed(store: Store, tmp_path: Path) -> None:
    fixture = next(item for item in fixtures() if item.name == "1.20/kitchen-rocksdb-incremental")
    directory, outside = foreign_copy(fixture, tmp_path, "rocksdb shared", lambda path: f"s3a://{OTHER}/{path.name}")
    for path in outside.iterdir():
        store.client.put_object(Bucket=OTHER, Key=path.name, Body=path.read_bytes())
    root = tmp_path / "checkpoints"
    uri = f"{store.upload(root, 'checkpoints')}/{directory.relative_to(root)}"
    opening = {"uids": [OPERATOR], "storage_options": store.options}
    with pytest.raises(UntrustedPath, match=f"allowed_roots=\\['s3a://{OTHER}'\\]"):
        stateproc.open(uri, **opening).state(OPERATOR, "profile").to_arrow()
    with pytest.raises(UntrustedPath, match=f"file s3a://{OTHER}/"):
        SavepointWriter.from_existing_savepoint(None, uri, {"storageOptions": store.options}).write(
            f"s3://{BUCKET}/copy"
        )
    assert "_metadata" not in store.names("copy")

    honest = stateproc.open(fixture.snapshot, uids=[OPERATOR]).state(OPERATOR, "profile").to_arrow()
    for more in ({"allowed_roots": f"s3://{OTHER}/"}, {"path_mapping": {f"s3a://{OTHER}": f"s3://{OTHER}"}}):
        found = stateproc.open(uri, **opening, **more).state(OPERATOR, "profile").to_arrow()
        assert found.sort_by("key") == honest.sort_by("key")


def test_a_snapshot_in_a_bucket_does_not_lead_to_a_local_disk(store: Store, tmp_path: Path) -> None:
    fixture = next(item for item in fixtures() if item.name == "1.20/kitchen-hashmap-checkpoint")
    directory, outside = foreign_copy(fixture, tmp_path, "managed keyed", lambda path: f"file:{path}")
    root = tmp_path / "checkpoints"
    uri = f"{store.upload(root, 'local')}/{directory.relative_to(root)}"
    with pytest.raises(UntrustedPath, match=str(outside)):
        stateproc.open(uri, uids=[OPERATOR], storage_options=store.options).state(OPERATOR, "profile").to_arrow()
