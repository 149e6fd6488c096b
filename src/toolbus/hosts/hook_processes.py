"""The entry point of the processes that an installed hook client starts: a worker, or a child.

Their environment has only the variables of the client's settings. Installed clients import this
module by its name.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path

from toolbus.hosts.run import hook_client


def main(words: list[str]) -> None:
    """Run `SETTINGS answer` or `SETTINGS serve FOLDER HOST`."""
    os.umask(0o077)
    # A core dump would write secrets to a file.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    settings = hook_client.read_settings(words[0])
    # Close descriptors inherited from the host; 3 is a worker's lock.
    os.closerange(4 if words[1] == "serve" else 3, 1024)
    from toolbus.hosts.run.process_main import answer_one, serve  # noqa: PLC0415 - after closerange

    if words[1] == "serve":
        serve(Path(words[0]), settings, Path(words[2]), words[3])
    else:
        answer_one(settings)
