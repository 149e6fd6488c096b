"""A process that opens a store and does one job: `OPENER ADDRESS JOB [ARGUMENT ...]`.

OPENER is "module:function". What it has done it prints, a line each, and what was acknowledged
stands there before the next append begins.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from store_laws.state_laws import count_up
from store_laws.subject_store import entry, record
from toolbus.messages.records import UserMessage
from toolbus.store.protocol import AppendRequest

if TYPE_CHECKING:
    from store_laws.subject_store import StoreSubject
    from toolbus.store.protocol import Store

_LARGE, _SMALL = 3_000, 20
_HOLDING = 60


def start_child(stores: StoreSubject, job: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a process on the same place; its lines come from `stdout`, its errors to ours."""
    command = [sys.executable, "-m", __name__, stores.opener, stores.address, job, *arguments]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    )


def lines_of(child: subprocess.Popen[str]) -> list[str]:
    """Return what a child prints until it ends; raises `AssertionError` if it fails."""
    output, _ = child.communicate()
    if child.returncode != 0:
        raise AssertionError(f"another process ended with {child.returncode}: {child.args!r}")
    return output.splitlines()


def numbered(session_id: str, number: int) -> AppendRequest:
    """Return what a writer appends at *number*, from 0; some of it takes several disk pages."""
    name = f"{session_id}{number}"
    message = UserMessage(id=name, content=name * (_LARGE if number % 7 == 0 else _SMALL))
    return AppendRequest(message=message, records=(record(number, subject=name),))


def _say(*words: object) -> None:
    # In one call to the system, so that a line is there as a whole or not at all.
    os.write(sys.stdout.fileno(), f"{' '.join(map(str, words))}\n".encode())


async def _write(store: Store, session_id: str) -> None:
    number = len(await store.read(session_id))
    while True:
        await store.append(session_id, numbered(session_id, number))
        _say(session_id, number)
        number += 1


async def _run(store: Store, job: str, arguments: list[str]) -> None:
    match job, arguments:
        case "count", [name, times]:
            await count_up(store, "s", name, int(times))
        case "take", [name]:
            position = await store.open_session("s", name, 0)
            await store.append("s", entry(name, at=position))
        case "hold", [seconds]:
            await store.open_session("s", "child", float(seconds))
            _say("held")
            await asyncio.sleep(_HOLDING)
        case "write", sessions:
            _say("ready")
            await asyncio.gather(*[_write(store, session_id) for session_id in sessions])
    await store.close()


def main() -> None:
    """Do what the arguments of the process say."""
    opener, address, job, *arguments = sys.argv[1:]
    module, _, function = opener.partition(":")
    open_store = getattr(import_module(module), function)
    asyncio.run(_run(open_store(address), job, arguments))


if __name__ == "__main__":
    main()
