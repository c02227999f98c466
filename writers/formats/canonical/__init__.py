"""Write canonical keyed state files."""
