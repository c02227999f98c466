"""Write native keyed state files of HashMapStateBackend."""
