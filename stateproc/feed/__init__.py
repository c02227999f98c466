"""What a job's states did between checkpoints: rows that were inserted, updated and deleted, with their checkpoint.

``commits`` lists the checkpoints below a root, ``feed_states`` finds a state in several snapshots, ``state_feed`` reads
its changes step by step or net. Imports ``snapshot`` and what is below it; Spark, the command line and streams use it.
"""

from __future__ import annotations
