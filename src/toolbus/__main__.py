"""`python -m toolbus` is the command `toolbus`."""

from __future__ import annotations

import sys

from toolbus.cli.command_line import main

sys.exit(main())
