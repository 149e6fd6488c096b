"""A person at a terminal: a process on a pseudo-terminal, what it shows, and what is typed."""

import codecs
import os
import pty
import select
import subprocess
import sys
import termios

PROGRAM = """
import fcntl, runpy, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
runpy.run_module("toolbus", run_name="__main__", alter_sys=True)
"""


class Terminal:
    """`toolbus` with *arguments* on a terminal of its own, which sends it Ctrl-C."""

    def __init__(self, arguments, *, cwd, env, columns=80):
        self._ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (24, columns))
        self.shown = ""
        # A piece may end within a letter, or between the two of a line's end.
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *map(str, arguments)],
            cwd=cwd,
            env=env,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self._ours)

    def expect(self, text):
        """Read until *text* is shown after what was expected before; return what was before it."""
        while text not in self.shown:
            if not (piece := self._read()):
                raise AssertionError(f"{text!r} is not shown, but {self.shown!r}")
            self._show(piece)
        before, _, self.shown = self.shown.partition(text)
        return before

    def type(self, text):
        """Type *text*; "\\x03" is Ctrl-C, "\\x04" Ctrl-D."""
        os.write(self._ours, text.encode())

    def end(self):
        """Return the exit code, and what is shown until then."""
        while piece := self._read():
            self._show(piece)
        return self.process.wait(timeout=30), self.shown

    def _show(self, piece):
        self.shown = (self.shown + self._decoder.decode(piece)).replace("\r\n", "\n")

    def _read(self):
        """Return the next bytes that are shown; none at the end, which Linux tells by an error."""
        if not select.select([self._ours], [], [], 30)[0]:
            raise AssertionError(f"nothing more is shown after {self.shown!r}")
        try:
            return os.read(self._ours, 65_536)
        except OSError:
            return b""
