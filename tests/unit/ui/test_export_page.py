"""The file of one session."""

import subprocess
import sys

import pytest

from toolbus.cli.export import file_name

WITHOUT_JINJA = """
import sys
sys.modules["jinja2"] = None
from toolbus.cli import main
sys.exit(main(["export", "--html", sys.argv[1], "s"]))
"""


def test_the_error_names_the_missing_extra(tmp_path):
    command = [sys.executable, "-c", WITHOUT_JINJA, str(tmp_path / "s.db")]
    made = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert made.returncode == 2
    assert made.stderr.startswith("error: the page needs Jinja; install the extra")
    assert "[ui]" in made.stderr


@pytest.mark.parametrize(
    ("session_id", "name"),
    [
        ("s-17", "s-17"),
        ("claude-code:3f9a/b c", "claude-code-3f9a-b-c"),
        ("../../etc/passwd", "etc-passwd"),
        (".hidden", "hidden"),
        ("-o", "o"),
        ("\u202e", "session"),
        ("", "session"),
        ("x" * 300, "x" * 80),
    ],
)
def test_the_default_name_is_a_plain_file(session_id, name):
    assert file_name(session_id) == name
