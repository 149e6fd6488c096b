"""`python -m toolbus` is the command `toolbus`."""

from __future__ import annotations

import sys

# `-m` searches the current folder first, and the command does not: a `json.py` there must not be
# imported. Only `toolbus` itself was looked up there before.
if not sys.flags.safe_path and __spec__ is not None:
    del sys.path[0]

from toolbus.cli.command_line import main

sys.exit(main())
