import os
import subprocess
import sys

CHECK = """
import os, sys, pathlib
from toolbus.hosts.run.watched_files import WatchedFiles
os.chdir(sys.argv[1])
watched = WatchedFiles(["there", "absent", "folder"])
assert watched.changed() is None
with watched.recording():
    open("read").read()
    open("written", "w").close()
    sys.path.insert(0, ".")
    import imported
open("later").read()
import imported_later
changed = sys.argv[2]
assert watched.changed() is None
if changed == "folder":
    pathlib.Path("folder/new").write_text("")
elif changed == "gone":
    os.remove("there")
else:
    pathlib.Path(changed).write_text("x = 2  # longer")
sys.exit(watched.changed() is None)
"""


def is_unchanged_after(folder, change):
    (folder / "folder").mkdir()
    for name in ("there", "read", "later", "imported.py", "imported_later.py"):
        (folder / name).write_text("")
    words = [sys.executable, "-c", CHECK, str(folder), change]
    return bool(
        subprocess.run(
            words, check=False, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        ).returncode
    )


def test_what_was_named_read_or_imported_is_watched(tmp_path):
    changes = ("there", "absent", "gone", "read", "imported.py", "imported_later.py")
    for change in changes:
        (tmp_path / change).mkdir()
    assert {each for each in changes if is_unchanged_after(tmp_path / each, each)} == set()


def test_what_was_written_or_read_later_is_not_watched(tmp_path):
    changes = ("written", "later", "folder")
    for change in changes:
        (tmp_path / change).mkdir()
    assert {each for each in changes if is_unchanged_after(tmp_path / each, each)} == set(changes)
