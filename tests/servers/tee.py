"""Stand before a server and write down what passes: `tee.py READ WROTE COMMAND...`.

READ gets the bytes that the server is sent, WROTE those that it writes, before they are passed on.
"""

import os
import subprocess
import sys
import threading
from pathlib import Path


def pump(source: int, log: str, sink: int) -> None:
    with Path(log).open("ab", buffering=0) as kept:
        while data := os.read(source, 2**16):
            kept.write(data)
            while data:
                data = data[os.write(sink, data) :]
    os.close(sink)


def main() -> int:
    read, wrote, *command = sys.argv[1:]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    threading.Thread(
        target=pump, args=(0, read, os.dup(server.stdin.fileno())), daemon=True
    ).start()
    server.stdin.close()
    pump(server.stdout.fileno(), wrote, 1)
    return server.wait()


sys.exit(main())
