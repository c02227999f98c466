"""Write operator state files."""
