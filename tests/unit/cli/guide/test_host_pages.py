import re
from pathlib import Path

import pytest

import toolbus
from toolbus.hosts.dialects import dialect
from toolbus.hosts.install.host_files import HOSTS, host_files

GUIDE = Path(toolbus.__file__).parent / "cli/guide"
SHOWN = (
    *("rewrite_arguments", "deny", "ask", "replace_result", "replace_failure"),
    *("block_prompt", "fill_arguments"),
)


def test_the_table_of_hosts_is_what_their_dialects_declare():
    text = GUIDE.joinpath("hosts.md").read_text("utf-8")

    rows = dict(re.findall(r"^\| `([a-z-]+)` \| (.+) \|$", text, re.MULTILINE))

    assert rows == {
        name: " | ".join([dialect(name).abilities[ability] for ability in SHOWN]) for name in HOSTS
    }


@pytest.mark.parametrize("name", [name for name in HOSTS if HOSTS[name].version])
def test_a_page_names_the_version_that_was_run(name):
    text = GUIDE.joinpath(f"{name}.md").read_text("utf-8")

    assert f"Version {HOSTS[name].version} was run." in text
    assert f"toolbus setup {name}\n" in text


@pytest.mark.parametrize("name", HOSTS)
def test_a_page_names_the_files_that_are_written(name):
    text = GUIDE.joinpath(f"{name}.md").read_text("utf-8")
    files = host_files(name)

    assert f"`~/{files.folder}/{files.user}`" in text
    assert f"`{files.project}`" in text
