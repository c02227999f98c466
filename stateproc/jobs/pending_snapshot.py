"""Open a savepoint whose files are complete, before it is committed."""

from __future__ import annotations

from stateproc.jobs.prepared_run import PreparedRun
from stateproc.metadata import SnapshotMetadata
from stateproc.options import open_arguments, parse_options
from stateproc.options.definition import option_texts
from stateproc.readers.read_options import ReadOptions
from stateproc.snapshot.opening import open
from stateproc.snapshot.snapshot import Snapshot
from stateproc.writers.commit.staging import Staging

_FIRST_KRYO_5 = 5


def pending_snapshot(run: PreparedRun, metadata: SnapshotMetadata, staging: Staging) -> Snapshot:
    """Return the savepoint as a snapshot, with the base's options of reading and the uids that the job names.

    Raises:
        SnapshotError: The base cannot be opened.
    """
    uids = [operator.uid for operator in run.job.operators]
    if run.base is None:
        return Snapshot(
            staging.location, metadata, ReadOptions(kryo=5 if metadata.version >= _FIRST_KRYO_5 else 2), uids
        )
    given = option_texts(run.read_options)
    arguments = open_arguments(parse_options({**given, "path": run.base}))
    base = open(run.base, **arguments)
    known = {operator.uid for operator in metadata.operators if operator.uid}
    return Snapshot(staging.location, metadata, base.options, [*uids, *known])
