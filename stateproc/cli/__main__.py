"""Run the command line as ``python -m stateproc.cli``."""

import sys

from stateproc.cli.app import main

sys.exit(main())
