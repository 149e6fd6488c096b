"""Other people's readers of MCP, each a program that says what it reads of bytes.

See `tests/readers`: the official SDKs for Python and TypeScript, Go's `encoding/json` where Go is
installed, and the model of it, which Go's own results prove.
"""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from node_packages import NODE, installed

READERS = Path(__file__).parents[1] / "readers"
PYTHON = READERS / "python_reader.py"
SECONDS = 600


def commands(go=None):
    """Return the commands of the readers by their names; *go* is `go/reader.go`, built."""
    typescript = [NODE, str(READERS / "typescript_reader.mjs"), str(installed())]
    model = [sys.executable, str(READERS / "go_model.py")]
    return {
        "Python": [sys.executable, str(PYTHON)],
        "TypeScript": typescript,
        "Go": model if go is None else [str(go)],
    }


def read(command, mode, cases):
    """Return what *command* reads of *cases*, each the pieces of what came."""
    lines = [f"{mode} {','.join([one.hex() for one in pieces])}\n" for pieces in cases]
    done = subprocess.run(
        command, input="".join(lines).encode(), capture_output=True, timeout=SECONDS, check=False
    )
    answers = done.stdout.splitlines()
    assert len(answers) == len(cases), done.stderr.decode()
    # Python alone has integers that no double holds.
    number = int if str(PYTHON) in command else float
    return [json.loads(line, parse_int=number) for line in answers]


def read_by_all(mode, cases, go=None):
    """Return, for each case, the messages by reader and way of reading."""
    named = commands(go)
    with ThreadPoolExecutor(len(named)) as pool:
        found = pool.map(lambda command: read(command, mode, cases), named.values())
    return [
        {
            f"{name} {way}": said
            for name, ways in zip(named, one, strict=True)
            for way, said in ways.items()
        }
        for one in zip(*found, strict=True)
    ]
