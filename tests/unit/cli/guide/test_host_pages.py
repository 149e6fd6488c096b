import re
from pathlib import Path

import pytest

import toolbus
from toolbus.hosts.dialects import DIALECTS, dialect
from toolbus.hosts.install.host_files import HOSTS, host_files

VERSIONS = {name: each for name in DIALECTS if (each := dialect(name).facts.version)}
GUIDE = Path(toolbus.__file__).parent / "cli/guide"
SHOWN = (
    *("rewrite_arguments", "deny", "ask", "replace_result", "replace_failure"),
    *("block_prompt", "fill_arguments"),
)


def test_the_table_of_hosts_is_what_their_dialects_declare():
    text = GUIDE.joinpath("hosts.md").read_text("utf-8")

    rows = dict(re.findall(r"^\| `([a-z-]+)` \| (.+) \|$", text, re.MULTILINE))

    abilities = {name: dialect(name).facts.abilities for name in HOSTS}
    assert rows == {
        name: " | ".join([known[ability] for ability in SHOWN]) for name, known in abilities.items()
    }


@pytest.mark.parametrize("name", VERSIONS)
def test_a_page_names_the_version_that_was_run(name):
    text = GUIDE.joinpath(f"{name}.md").read_text("utf-8")

    assert f"Version {VERSIONS[name]} was run." in text
    assert f"toolbus setup {name}\n" in text


@pytest.mark.parametrize("name", HOSTS)
def test_a_page_names_the_files_that_are_written(name):
    text = GUIDE.joinpath(f"{name}.md").read_text("utf-8")
    files = host_files(name)

    assert f"`~/{files.folder}/{files.user}`" in text
    assert f"`{files.project}`" in text
