"""stateproc: open the memory of Flink jobs as typed DataFrames."""
