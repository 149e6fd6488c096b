"""Lets each file of Python be compiled once, and not once for each process that the tests start.

Loaded by `-p`, first of all: what is imported behind it, and rewritten, is kept as well.
"""

import os
import sys

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
