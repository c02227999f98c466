"""From rows of DataFrames to raw entries of new states."""
