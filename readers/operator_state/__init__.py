"""Read operator state files: list, union and broadcast state of one subtask. May import readers.common."""
