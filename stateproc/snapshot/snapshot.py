"""Define what users open: a snapshot and what can be done with it. Each method calls the package that does it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

from stateproc.model.snapshot import SnapshotContents

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

    from stateproc.compatibility.verdicts import CompatibilityCheck
    from stateproc.diff.snapshot_diff import SnapshotComparison
    from stateproc.export.export_run import ProgressStart
    from stateproc.export.manifest import ExportManifest
    from stateproc.sql import SqlCatalog, SqlDatabase
    from stateproc.verification.class_mentions import MentionedClass
    from stateproc.verification.report import Verification


class Snapshot(SnapshotContents):
    """A savepoint or checkpoint. Opening it reads nothing but ``_metadata``; state files are read on demand.

    Attributes:
        location: The snapshot's directory and the options of its file system.
        metadata: The contents of ``_metadata``.
        options: How states are decoded.
    """

    def offsets(self) -> pa.Table:
        """Return where all sources continue, a row per split.

        Returns:
            operator, connector, split, kind (of position: offset, file:pos, GTID, LSN, sequence number …), position in
            the connector's words, phase (snapshot or streaming), stops_at, subtask; and of Kafka topic, partition,
            offset (the first record that has not been read) and stopping_offset as numbers, of which -1, -2 and -3
            mean latest, earliest and the committed offset. Sorted by operator and split. A split without a subtask is
            known to the source's coordinator and not assigned to a reader yet.

        Raises:
            SnapshotError: The state of a source cannot be read.
        """
        # Lazy: start-up.
        from stateproc.reports.source_positions import positions_table

        return positions_table(self.operators)

    def pending(self) -> pa.Table:
        """Return what sinks have written and not committed, a row per file, manifest, transaction, XID or record.

        Returns:
            operator, connector, state, checkpoint_id, status (to commit: a restore commits it; in progress: a restore
            goes on with it; buffered: a restore sends it; to clean up: a restore deletes or aborts it), kind, name
            (the target file, the transaction's id …), temporary (the file as it is now), bytes, files, rows,
            upload_id, bucket, subtask; sorted by operator, checkpoint, status and name. A committable of an unknown
            connector has its bytes only.

        Raises:
            SnapshotError: The state of a sink cannot be read.
        """
        # Lazy: start-up.
        from stateproc.reports.pending import pending_table

        return pending_table(self.operators)

    def catalog(self) -> pa.Table:
        """Return a table of all states: operator, name, kind, types, bytes, and why a state cannot be read.

        Reads the headers of state files.
        """
        # Lazy: start-up.
        from stateproc.snapshot.metadata_tables import METADATA_TABLES

        return METADATA_TABLES["states"].table(self)

    def verify(
        self,
        *,
        uids: Iterable[str] = (),
        states: Iterable[str] = (),
        deep: bool = False,
        threads: int | None = None,
        hash_function: Mapping[str, str] | None = None,
    ) -> Verification:
        """Read all files and states once, in parallel threads and bounded memory, and report every problem.

        Args:
            uids: Only these operators, named as in :meth:`operator`.
            states: Only these states, by name.
            deep: Let RocksDB itself open native databases, too, and compare the number of entries.
            threads: The number of threads that read and decode; default the cores that this process may use.
            hash_function: The formulas of keys' hash codes, by uid, as of ``SavepointWriter.with_hash_function``.

        Returns:
            What was found: ``is_intact``, ``problems``, and rows per operator and state.

        Raises:
            NotFound: There is no such operator or state.
            MissingPackage: ``deep`` needs rocksdict, which is not installed.
        """
        from stateproc.verification.verify import plan_verification  # lazy: start-up

        run = plan_verification(self, uids=uids, states=states, deep=deep, threads=threads, hash_function=hash_function)
        return run.run()

    def check(
        self,
        *,
        flink_version: str | None = None,
        like: Snapshot | None = None,
        expect: Mapping[str, Any] | None = None,
        to_plan: Any = None,
        from_plan: Any = None,
        job: str | os.PathLike[str] | None = None,
        backend: str | None = None,
        claim_mode: str | None = None,
    ) -> CompatibilityCheck:
        """Answer whether the snapshot restores in a job, with the right values.

        Reads the headers of state files; rows only of states with values of Kryo whose types leave open whether another
        Kryo reads them as they were written.

        Args:
            flink_version: The release that the job runs on, such as '2.3'; default that of ``like`` or ``to_plan``.
                Without ``like``, ``expect`` and ``to_plan`` the job is the one that wrote the snapshot.
            like: A snapshot of the job, for example of a local run without data.
            expect: The states that the job declares, as `stateproc describe --expect` writes them:
                ``{"operators": [{"uid": …, "key": "Long", "states": [{"name": …, "kind": "value", "value": …}]}]}``.
            to_plan: The compiled plan of the job, of SQL: the path of its JSON, its text, or the parsed JSON.
            from_plan: The plan of the job that wrote the snapshot. With it state is compared by what the queries
                compute, without it by its types alone.
            job: The path of a job graph: what Flink's REST API returns for ``/jobs/<id>``, or ``getExecutionPlan()``.
                The job has the same state; parallelism and max parallelism are compared.
            backend: The job's state backend, 'hashmap' or 'rocksdb'; default the one that wrote the snapshot.
            claim_mode: The claim mode of the restore: 'NO_CLAIM', 'CLAIM' or 'LEGACY'.

        Returns:
            ``restores``, and a verdict per operator and state, with the reason and what to do; ``cautions`` about what
            the claim mode does after the restore.

        Raises:
            InvalidOption: Nothing says what the job is, or more than one thing does, there is no such release, it does
                not have the claim mode, or the old plan is not that of the snapshot.
            SnapshotError: The snapshot cannot be read.
        """
        # Lazy: start-up.
        from stateproc.compatibility.check import check_snapshot
        from stateproc.compatibility.expected_job import expected_operators
        from stateproc.compatibility.job_graph import read_job_graph
        from stateproc.query_plans.plan_file import read_plan

        declared = None if expect is None else expected_operators(expect)
        old, new = (None if plan is None else read_plan(plan) for plan in (from_plan, to_plan))
        graph = None if job is None else read_job_graph(os.fspath(job))
        return check_snapshot(
            self,
            flink_version=flink_version,
            like=like,
            expect=declared,
            to_plan=new,
            from_plan=old,
            job=graph,
            backend=backend,
            claim_mode=claim_mode,
        )

    def classes(self) -> tuple[MentionedClass, ...]:
        """Return the user classes that serializers of states mention, those first that cannot be read as they are.

        Reads the headers of state files. Classes that only values name are found by :meth:`verify`.
        """
        # Lazy: start-up.
        from stateproc.verification.class_mentions import mentioned_classes

        return mentioned_classes(self.operators)

    def diff(
        self,
        other: Snapshot,
        *,
        uids: Iterable[str] = (),
        states: Iterable[str] = (),
        times: bool = False,
        threads: int | None = None,
    ) -> SnapshotComparison:
        """Compare with a later snapshot: operators, states, and the contents of each state key by key.

        Formats, backends, parallelisms and Flink releases may differ: the same contents are equal.

        Args:
            other: The later snapshot; what it adds counts as inserted.
            uids: Only these operators, named as in :meth:`operator`.
            states: Only these states, by name.
            times: Whether times of last access (TTL) count.
            threads: The number of threads that read; default the cores that this process may use.

        Raises:
            NotFound: Neither snapshot has one of these operators or states.
        """
        # Lazy: start-up.
        from stateproc.diff.snapshot_diff import compare_snapshots

        return compare_snapshots(self, other, uids=uids, states=states, times=times, threads=threads)

    def sql(self, query: str, *, threads: int | None = None, memory_limit: str | None = None) -> pa.Table:
        """Run a statement of DuckDB's SQL over the states: ``SELECT … FROM "uid"."state" WHERE key = 42``.

        Columns that a query does not need are not read, nor key groups that conditions on ``key`` exclude.

        Args:
            query: One statement. A state's name alone is enough where only one operator has it; ``states``,
                ``operators``, ``files`` and ``offsets`` are tables about the snapshot.
            threads: The number of threads; default the cores that this process may use.
            memory_limit: DuckDB's memory for sorting, joining and grouping, such as ``2GB``.

        Raises:
            InvalidOption: The statement cannot be run.
            MissingPackage: duckdb is not installed.
            NotFound: It names a state that does not exist.
            SnapshotError: A state cannot be read.
        """
        with closing(self.sql_database(threads=threads, memory_limit=memory_limit)) as database:
            return database.run(query).reader().read_all()

    def sql_database(
        self, *, threads: int | None = None, memory_limit: str | None = None, external_access: bool = True
    ) -> SqlDatabase:
        """Return a connection for several statements, whose results are streams: ``database.run(query).reader()``.

        Args:
            threads: As of :meth:`sql`.
            memory_limit: As of :meth:`sql`.
            external_access: Whether statements may read and write files, attach databases and load extensions.
        """
        from stateproc.sql import SqlDatabase  # Lazy: start-up.

        return SqlDatabase(self._sql_catalog(), threads, memory_limit, external_access=external_access)

    def to_duckdb(self, connection: DuckDBPyConnection | None = None) -> DuckDBPyConnection:
        """Create a view per state in a DuckDB connection: ``"uid"."state"``. Each query reads the states that it names.

        Args:
            connection: The connection; default a new one.

        Returns:
            The connection.

        Raises:
            MissingPackage: duckdb is not installed.
        """
        from stateproc.sql.database import views_in  # Lazy: start-up.

        return views_in(connection, self._sql_catalog())

    def _sql_catalog(self) -> SqlCatalog:
        """Return the tables for SQL: one per state, and states, operators, files, coordinators, rocksdb and offsets."""
        # Lazy: start-up.
        from stateproc.snapshot.metadata_tables import METADATA_TABLES
        from stateproc.sql import SqlCatalog

        tables = {name: (lambda table=table: table.table(self)) for name, table in METADATA_TABLES.items()}
        return SqlCatalog(self.operators, self.operator, {**tables, "offsets": self.offsets})

    def export(
        self,
        directory: str,
        *,
        format: str = "parquet",
        uids: Iterable[str] | None = None,
        states: Iterable[str] | None = None,
        compression: str | None = None,
        temporal: str | None = None,
        raw: bool = False,
        flatten: bool = False,
        key_group_ranges: int | None = None,
        threads: int | None = None,
        overwrite: bool = False,
        storage_options: Mapping[str, Any] | None = None,
        _start: ProgressStart | None = None,
    ) -> ExportManifest:
        """Export states into a directory, one folder each, in parallel and in bounded memory.

        A directory that contains an unfinished export of this snapshot is continued: complete files are kept.

        Args:
            directory: A local directory or any URI that fsspec knows.
            format: parquet, arrow, csv, jsonl or delta.
            uids: Only these operators, by uid, uid hash or name.
            states: Only states of these names.
            compression: zstd, snappy, lz4, gzip or none, as the format has them; default: parquet and delta snappy,
                arrow lz4, jsonl gzip, csv none.
            temporal: 'micros' (default of parquet, arrow, delta), or 'exact': dates and times as ISO text (default of
                csv, jsonl).
            raw: Source and sink states as their bytes.
            flatten: One row per list element or map entry; states without them are not exported.
            key_group_ranges: Divide each keyed state into this many hive-style folders ``key_groups=0-31``.
            threads: The number of threads; default the cores that this process may use.
            overwrite: Remove the files of another export in the directory.
            storage_options: Keyword arguments of the directory's file system; default those of the snapshot.

        Returns:
            What was exported, as ``manifest.json`` in the directory says it. States that cannot be read are in it with
            their problem.

        Raises:
            InvalidOption: An argument does not fit, or the directory contains something else.
            NotFound: There is no such operator or state.
            WriteFailed: A file cannot be written. What is complete is kept, and another call continues.
        """
        # Lazy: start-up.
        from stateproc.export import export_states
        from stateproc.reports.source_positions import positions_table

        everything = uids is None and states is None
        return export_states(
            self,
            directory,
            format=format,
            uids=uids,
            states=states,
            compression=compression,
            temporal=temporal,
            raw=raw,
            flatten=flatten,
            key_group_ranges=key_group_ranges,
            threads=threads,
            overwrite=overwrite,
            storage_options=storage_options,
            tables={"offsets": lambda: positions_table(self.operators)} if everything else None,
            start=_start,
        )

    def _repr_html_(self) -> str:
        """Show the operators in a notebook."""
        # Lazy: start-up.
        from stateproc.reports.snapshot_card import snapshot_card

        return snapshot_card(self).html()
