"""Write states into directories of Parquet, Arrow, CSV, JSON lines or Delta. May import model and what is below.

``export_states`` plans files (``plan``), writes them in parallel (``export_run``, ``export_file``) and records them
in a manifest (``manifest``), by which a later run continues.
"""

from stateproc.export.export_run import export_states
from stateproc.export.file_formats import EXPORT_FORMATS
from stateproc.export.manifest import ExportManifest

__all__ = ["EXPORT_FORMATS", "ExportManifest", "export_states"]
