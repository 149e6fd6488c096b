import tomllib
from pathlib import Path

from tests.plugins.code_blocks import read_code_blocks

import toolbus

PAGE = Path(toolbus.__file__).parent.joinpath("cli/guide/components.md").read_text("utf-8")
PACKAGE = Path(__file__).parents[3] / "distributions/acme-guards/pyproject.toml"


def test_the_tests_install_the_package_that_it_shows():
    (block,) = [
        block for block in read_code_blocks("components.md", PAGE) if "entry-points" in block.text
    ]

    shown, installed = map(tomllib.loads, (block.text, PACKAGE.read_text("utf-8")))

    assert shown["project"]["entry-points"] == installed["project"]["entry-points"]
