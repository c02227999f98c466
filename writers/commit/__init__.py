"""A write begun, completed or ended: files of unique names, ``_metadata`` last."""
