"""The model that users see: a snapshot, its operators, and their states as typed tables."""
