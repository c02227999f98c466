"""Show reports and rows on a terminal with rich. Imports stateproc.row_formats.json_values and rich only."""
