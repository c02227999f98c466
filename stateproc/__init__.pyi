"""The public API: the module that defines each name, for type checkers and for ``__init__.py``, which reads it."""

from stateproc.catalog.flink_configuration import flink_configuration as flink_configuration
from stateproc.catalog.listing import ls as ls
from stateproc.catalog.orphans import find_orphans as find_orphans
from stateproc.demo.bundled import bundled_snapshot as bundled_snapshot
from stateproc.errors import AccessDenied as AccessDenied
from stateproc.errors import AmbiguousNamesWarning as AmbiguousNamesWarning
from stateproc.errors import CheckFailed as CheckFailed
from stateproc.errors import CorruptSnapshot as CorruptSnapshot
from stateproc.errors import DuplicateKey as DuplicateKey
from stateproc.errors import InvalidEntries as InvalidEntries
from stateproc.errors import InvalidOption as InvalidOption
from stateproc.errors import InvalidRows as InvalidRows
from stateproc.errors import LostCheckpoint as LostCheckpoint
from stateproc.errors import MisplacedFile as MisplacedFile
from stateproc.errors import MissingFile as MissingFile
from stateproc.errors import MissingPackage as MissingPackage
from stateproc.errors import NotFound as NotFound
from stateproc.errors import QueryPlanWarning as QueryPlanWarning
from stateproc.errors import SnapshotError as SnapshotError
from stateproc.errors import StoreUnavailable as StoreUnavailable
from stateproc.errors import UnmatchedUidWarning as UnmatchedUidWarning
from stateproc.errors import UnreadableStateWarning as UnreadableStateWarning
from stateproc.errors import UnsupportedSnapshot as UnsupportedSnapshot
from stateproc.errors import UntrustedPath as UntrustedPath
from stateproc.errors import WriteFailed as WriteFailed
from stateproc.feed.changes import changes as changes
from stateproc.jobs.job_run import run_job as run_job
from stateproc.snapshot.opening import open as open
from stateproc.snapshot.snapshot import Snapshot as Snapshot
from stateproc.spark.delta_copy import merge_changes as merge_changes
from stateproc.spark.relations import load as load
from stateproc.spark.views import attach as attach
from stateproc.writers.bootstrap.operator_bootstrap import OperatorBootstrap as OperatorBootstrap
from stateproc.writers.savepoint_writer import SavepointWriter as SavepointWriter

__version__: str
