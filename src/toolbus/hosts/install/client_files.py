"""The files of an installed hook's client, and the shell command that runs it."""

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
"""The files beside the script, except the host's file of fail-closed answers."""
IDLE = 1800.0
"""Seconds without an event after which a worker ends."""

_OFFSET = 100
"""The offset of the exit codes of answers, which differ from those of failing programs."""

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
    """All settings of a hook's client, its workers and its children.

    Args:
        python: the absolute path of the interpreter.
        search_path: additional entries for its `sys.path`.
        version: the version of toolbus.
        variables: the whole environment of workers and children.
        sockets: the private folder of the workers' sockets, created on demand.
        store: the SQLite file of all sessions.
        config: the configuration named at the installation; None: the active ones.
        limit: seconds after which an event is blocked.
        idle: seconds without an event after which a worker ends.
        required: the configuration without which every event is blocked.
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
    """Return the settings for this interpreter and environment.

    Raises `UsageError` if the interpreter does not import this very toolbus with them.
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
            f"{settings.python!r} does not import this toolbus {settings.version}; "
            "install it in a virtual environment of its own"
        )
    return settings


def interpreter() -> str:
    """Return the absolute path of this Python, inside its virtual environment if it has one.

    Raises `UsageError` for a version manager's shim, which may run another version, and ten times
    as slowly.
    """
    path = Path(sys.executable or "/")
    way_out = "install toolbus in a virtual environment, and run its own toolbus"
    if not path.is_absolute() or not path.is_file():
        raise UsageError(f"there is no interpreter at {str(path)!r}; {way_out}")
    with path.open("rb") as stream:
        is_script = stream.read(2) == b"#!"
    if is_script or "shims" in path.parts or not path.resolve().name.startswith(("python", "pypy")):
        raise UsageError(f"{str(path)!r} is a version manager's shim; {way_out}")
    return str(path)


def copied_files(script: Path, host: str, changes: Mapping[str, str]) -> dict[str, bytes]:
    """Return copies of the files of the client *script* by name, with *changes* of settings."""
    names = (*CLIENT_FILES, f"{host}.blocks", script.name)
    files = {name: (script.parent / name).read_bytes() for name in names}
    pairs = [line.partition("=")[::2] for line in os.fsdecode(files["settings"]).splitlines()]
    changed = [(key, changes.get(key, value)) for key, value in pairs if key != "digest"]
    return files | {"settings": _settings_text(changed)}


def write_files(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Write the *files* of a client to *folder*, private to the user; return the script."""
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
    """Return the POSIX shell command that runs *script* for *event*, and else answers *block*.

    Only the exit codes of answers count: after any other end of the client, such as a missing
    interpreter, an empty script or a signal, the shell gives the fail-closed answer *block*.
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
    """Yield keys and values; raises `UsageError` for a value of several lines."""
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
            raise UsageError(f"the setting {key!r} of a hook must be one line, got {value!r}")
        yield key, value


def _settings_text(pairs: Iterable[tuple[str, str]]) -> bytes:
    text = "".join([f"{key}={value}\n" for key, value in pairs])
    lines = text.encode(errors="surrogateescape")
    return lines + f"digest={sha256(lines).hexdigest()}\n".encode()


def _block_line(event: str, answer: HookAnswer) -> str:
    return f"{event}={answer.exit_code} {answer.stdout.hex()} {answer.stderr.hex()}\n"


def _sockets_folder() -> Path:
    """Return a folder in the system's runtime directory, else one in our state folder."""
    runtime = Path(os.environ.get("XDG_RUNTIME_DIR") or "")
    with suppress(OSError):
        if runtime.is_absolute() and is_private(runtime.stat()):
            return runtime / "toolbus"
    return state_folder() / "sockets"


@cache
def _place_of_toolbus(python: str, search_path: tuple[str, ...]) -> str:
    """Return the file of the toolbus that *python* imports with *search_path*; "" if none."""
    probe = subprocess.run(  # noqa: S603 - our own interpreter
        [python, "-I", "-c", _PROBE, ":".join(search_path)],
        cwd="/",
        env={},
        capture_output=True,
        check=False,
        text=True,
    )
    return "" if probe.returncode else probe.stdout.strip()
