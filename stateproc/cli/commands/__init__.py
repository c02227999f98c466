"""What runs each command, and how it shows its results; ``stateproc.cli.definitions`` has the arguments."""
