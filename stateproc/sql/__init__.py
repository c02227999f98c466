"""Query states with SQL by DuckDB, in bounded memory. May import model and what is below them.

``catalog`` names the tables, ``pushdown`` finds out which columns and keys a query needs of each, ``database`` runs it.
"""

from stateproc.errors import package_for
from stateproc.sql.catalog import SqlCatalog, SqlTable

with package_for("SQL"):
    from stateproc.sql.database import SqlDatabase, SqlResult

__all__ = ["SqlCatalog", "SqlDatabase", "SqlResult", "SqlTable"]
