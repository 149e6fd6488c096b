"""The command of an installed hook: a small client in a folder of ours, and the shell's line."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

import toolbus
from toolbus.hosts.run import hook_client
from toolbus.hosts.run.requests import LIMIT, default_store
from toolbus.settings.private_files import is_private, write_private
from toolbus.settings.usage_error import UsageError
from toolbus.settings.user_folders import state_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from toolbus.hosts.dialects.hook_events import HookAnswer


SCRIPT = "hook.py"
CLIENT_FILES = ("hook_client.py", "settings")
"""The files beside the script, besides the one with the blocks of a host."""
IDLE = 1800.0
"""Seconds without an event after which a worker ends."""

_OFFSET = 100
"""What the client adds to the exit code of an answer: no program that breaks ends with these."""

_VARIABLES = ("HOME", "PATH", "LANG", "LC_ALL", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "TMPDIR")
_PROBE = (
    "import sys;sys.path+=[p for p in sys.argv[1].split(':')if p not in sys.path];"
    "import toolbus.hosts.hook_processes;print(toolbus.__file__)"
)
_SCRIPT_TEXT = '''\
"""Answer an event of a host's hooks; written by `toolbus hosts install`."""
import sys
try:
    sys.path.insert(0, __file__.rpartition("/")[0])
    import hook_client
    del sys.path[0]
    hook_client.run()
except BaseException:
    sys.stderr.write("toolbus: its hook is broken; install it again: toolbus hosts install\\n")
    sys.exit(1 if sys.argv[3:] else 2)
'''


class ClientSettings(Struct, frozen=True, kw_only=True):
    """The settings of a hook's client, its workers and its children: they take nothing elsewhere.

    Args:
        python: the interpreter, absolute.
        search_path: where it finds what it imports, in addition to its own places.
        version: that of toolbus.
        variables: all of the environment that workers and children have.
        sockets: the folder of the workers' sockets, ours alone, made when it is needed.
        store: the SQLite file of all sessions.
        config: the configuration that was named; None: those that are in force.
        limit: seconds that an event may take; then it is blocked.
        idle: seconds without an event after which a worker ends.
        required: the configuration without whose components every event is stopped.
    """

    python: str
    search_path: tuple[str, ...]
    version: str
    variables: Mapping[str, str]
    sockets: str
    store: str
    config: str | None = None
    limit: float = LIMIT
    idle: float = IDLE
    required: str | None = None


def client_settings(config: str | None = None, required: str | None = None) -> ClientSettings:
    """Return the settings that this process, its interpreter and its environment suggest.

    Raises `UsageError` if that interpreter would not find this toolbus, or another one, by them.
    """
    path = tuple(each for each in sys.path if each.startswith("/") and ":" not in each)
    variables = {name: os.environ[name] for name in _VARIABLES if os.environ.get(name)}
    settings = ClientSettings(
        python=interpreter(),
        search_path=path,
        version=version("toolbus"),
        variables=variables,
        sockets=str(_sockets_folder()),
        store=str(default_store()),
        config=None if config is None else str(Path(config).absolute()),
        required=required,
    )
    if _place_of_toolbus(settings.python, settings.search_path) != str(toolbus.__file__):
        raise UsageError(
            f"{settings.python!r} alone finds no toolbus of {settings.version}; "
            "install it in a virtual environment of its own"
        )
    return settings


def interpreter() -> str:
    """Return the absolute path of this Python, a virtual environment's own if it is one.

    Raises `UsageError` for a version manager's script, which another version could answer,
    ten times as slowly.
    """
    path = Path(sys.executable or "/")
    way_out = "install toolbus in a virtual environment, and run its own toolbus"
    if not path.is_absolute() or not path.is_file():
        raise UsageError(f"no interpreter at {str(path)!r}; {way_out}")
    with path.open("rb") as stream:
        is_script = stream.read(2) == b"#!"
    if is_script or "shims" in path.parts or not path.resolve().name.startswith(("python", "pypy")):
        raise UsageError(f"{str(path)!r} is of a version manager, not an interpreter; {way_out}")
    return str(path)


def copied_files(script: Path, host: str, changes: Mapping[str, str]) -> dict[str, bytes]:
    """Return the files of the client of *script* by name, its settings with *changes*."""
    names = (*CLIENT_FILES, f"{host}.blocks", script.name)
    files = {name: (script.parent / name).read_bytes() for name in names}
    pairs = [line.partition("=")[::2] for line in os.fsdecode(files["settings"]).splitlines()]
    changed = [(key, changes.get(key, value)) for key, value in pairs if key != "digest"]
    return files | {"settings": _settings_text(changed)}


def write_files(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Write the *files* of a client to *folder*, for their owner alone; return the script."""
    for name, data in files.items():
        write_private(folder / name, data)
    return folder / SCRIPT


def client_files(
    settings: ClientSettings, host: str, blocks: Mapping[str, HookAnswer]
) -> dict[str, bytes]:
    """Return the files of a client for the events of *host* by name; the script is the last.

    *blocks* has by event the answer that stops it when it cannot be judged: the dialect's
    `fail_closed_answer(event, None, reason)`. Raises `UsageError` for a setting that does not fit
    into one line.
    """
    return {
        "hook_client.py": Path(hook_client.__file__).read_bytes(),
        "settings": _settings_text(_lines(settings)),
        f"{host}.blocks": "".join([_block_line(*each) for each in blocks.items()]).encode(),
        SCRIPT: _SCRIPT_TEXT.encode(),
    }


def shell_line(python: str, script: Path, host: str, event: str, block: HookAnswer) -> str:
    """Return the line for a POSIX shell that runs *script* for *event*, or else answers *block*.

    Only exit codes that an answer has are taken for one: whatever else ends the client, a missing
    interpreter, an empty script, a signal, is followed by the host's block.
    """
    code = block.exit_code
    words = [python, "-I", "-S", str(script), host, event, str(_OFFSET)]
    texts = [
        f"printf %s {shlex.quote(data.decode().rstrip())}{redirection}; "
        for data, redirection in ((block.stdout, ""), (block.stderr, " >&2"))
        if data
    ]
    answers = " ".join(f"{_OFFSET + each}) exit {each};;" for each in sorted({0, 2, code}))
    return f"{shlex.join(words)}; case $? in {answers} *) {''.join(texts)}exit {code};; esac"


def _lines(settings: ClientSettings) -> Iterator[tuple[str, str]]:
    """Yield keys and values; raises `UsageError` for what no line can hold."""
    pairs = [
        ("python", settings.python),
        ("path", ":".join(settings.search_path)),
        ("version", settings.version),
        *[("variable", f"{name}={value}") for name, value in sorted(settings.variables.items())],
        ("sockets", settings.sockets),
        ("store", settings.store),
        *([] if settings.config is None else [("config", settings.config)]),
        ("limit", str(settings.limit)),
        ("idle", str(settings.idle)),
        *([("required", settings.required)] if settings.required else []),
    ]
    for key, value in pairs:
        if len(value.splitlines()) > 1 or "\0" in value:
            raise UsageError(f"{value!r} has more than one line: no {key} of a hook")
        yield key, value


def _settings_text(pairs: Iterable[tuple[str, str]]) -> bytes:
    text = "".join([f"{key}={value}\n" for key, value in pairs])
    lines = text.encode(errors="surrogateescape")
    return lines + f"digest={sha256(lines).hexdigest()}\n".encode()


def _block_line(event: str, answer: HookAnswer) -> str:
    return f"{event}={answer.exit_code} {answer.stdout.hex()} {answer.stderr.hex()}\n"


def _sockets_folder() -> Path:
    """Return the folder of the system for what lives as long as a login, else one of ours."""
    runtime = Path(os.environ.get("XDG_RUNTIME_DIR") or "")
    with suppress(OSError):
        if runtime.is_absolute() and is_private(runtime.stat()):
            return runtime / "toolbus"
    return state_folder() / "sockets"


@cache
def _place_of_toolbus(python: str, search_path: tuple[str, ...]) -> str:
    """Return which toolbus *python* imports, alone but for *search_path*; "" if none."""
    probe = subprocess.run(  # noqa: S603 - our own interpreter
        [python, "-I", "-c", _PROBE, ":".join(search_path)],
        cwd="/",
        env={},
        capture_output=True,
        check=False,
        text=True,
    )
    return "" if probe.returncode else probe.stdout.strip()
