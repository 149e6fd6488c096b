"""`python -m toolbus` is the command `toolbus`."""

from __future__ import annotations

import sys

from toolbus.cli import main

sys.exit(main())
