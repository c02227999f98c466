"""Small snapshots of real jobs and notebooks that come with the package.

``data`` and ``notebooks`` are links to the repository's fixtures and notebooks; a wheel contains the files.
May import: errors.
"""
