"""Read canonical keyed state files (FullSnapshotUtil's layout, every state backend restores them)."""
