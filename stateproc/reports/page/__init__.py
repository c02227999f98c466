"""The page of ``inspect --html``: facts are arranged for its template by plain functions, section by section."""
