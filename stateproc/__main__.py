"""``python -m stateproc``: the command line."""

import sys

from stateproc.cli import main

if __name__ == "__main__":
    sys.exit(main())
