import re
from pathlib import Path

import toolbus

HOUSE = Path(toolbus.__file__).parent
HEAD = re.findall(r"^(`.+) - (.+)[;.]$", toolbus.__doc__, re.MULTILINE)


def test_the_path_is_that_of_the_package():
    page = HOUSE.joinpath("cli/guide/reading.md").read_text("utf-8")
    table = page.partition("| read | for |\n|---|---|\n")[2].partition("\n\n")[0]

    rows = [tuple(row.strip("| ").split(" | ")) for row in table.splitlines()]

    assert rows == HEAD


def test_the_path_can_be_read_in_an_hour():
    files = [HOUSE / f"{name}.py" for names, _ in HEAD for name in re.findall("`(.+?)`", names)]

    lines = [len(file.read_text("utf-8").splitlines()) for file in files]

    assert len(files) == 10
    assert sum(lines) <= 2_500
