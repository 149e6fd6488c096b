"""A command on a terminal of its own."""

import os
import pty
import subprocess
import sys


def on_terminal(environment, folder, *arguments):
    """Return the exit code of a command that runs on a terminal, and what it wrote there."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "toolbus", *arguments],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
    ) as child:
        os.close(theirs)
        written = b""
        while piece := read(ours):
            written += piece
    os.close(ours)
    return child.returncode, written.decode().replace("\r\n", "\n")


def read(terminal):
    """Return what stands on the other side; nothing at its end, which Linux tells by an error."""
    try:
        return os.read(terminal, 65_536)
    except OSError:
        return b""
