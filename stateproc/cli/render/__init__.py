"""Show reports and rows on a terminal with rich. Imports stateproc.cli.json_values and rich only."""
