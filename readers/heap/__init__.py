"""Read native keyed state files of HashMapStateBackend."""
