"""Coverage-guided fuzzing of every reader of bytes: ``make fuzz``."""
