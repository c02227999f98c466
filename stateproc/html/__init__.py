"""HTML for the page of ``inspect --html`` and for notebooks: units, pictures as inline SVG, templates that escape.

Nothing here knows snapshots: it draws plain values. May import nothing of stateproc.
"""
