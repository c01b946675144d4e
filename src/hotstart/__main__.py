"""``python -m hotstart`` is the `hotstart` command."""

import sys

from hotstart.cli import main

sys.exit(main())
