"""`python -m toolbus` is the command `toolbus`."""

from __future__ import annotations

import sys

# The current folder, which `-m` searches first, and the command does not: its `json.py` is not
# the one that is meant, whoever wrote it. Only `toolbus` itself was looked for there already.
if not sys.flags.safe_path and __spec__ is not None:
    del sys.path[0]

from toolbus.cli.command_line import main

sys.exit(main())
