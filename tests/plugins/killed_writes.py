"""A program that runs `toolbus` and is killed before or after one of its writes."""

KILLED_WRITES = """
import os, signal, sys
from toolbus.cli import main
from toolbus.store.sqlite import SqliteStore

def tick():
    global steps
    steps -= 1
    if steps < 0:
        os.kill(os.getpid(), signal.SIGKILL)

def killing(real):
    async def write(*words, **options):
        tick()
        made = await real(*words, **options)
        tick()
        return made
    return write

def run(*names):
    for name in names:
        setattr(SqliteStore, name, killing(getattr(SqliteStore, name)))
    sys.exit(main())
"""
"""What follows it sets `steps`, how many it takes before it is killed, and calls `run`."""
