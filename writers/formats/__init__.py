"""State files in Flink's formats, encoded from raw entries, and their verification.

`keyed_formats` is the table of formats for keyed state. Imports readers (to verify), metadata, storage and codec; no
other package of writers.
"""

from __future__ import annotations


# Shared by the writers of all formats: batches of raw entries, their order, snappy streams, checks of counts.
