import asyncio
import inspect
import re
from pathlib import Path

import pytest

from toolbus import events

README = Path(__file__).parents[2].joinpath("README.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=["first handler", "first adapter"])
def test_a_code_block_prints_what_it_says(block: str, capsys):
    names = {"__name__": "readme"}

    exec(compile(block, "README.md", "exec"), names)
    if inspect.iscoroutinefunction(main := names.get("main")):
        asyncio.run(main())

    said = re.findall(r"# (.+)$", block, re.MULTILINE)[-1]
    assert capsys.readouterr().out.strip() == said


def test_the_first_handler_has_at_most_fifteen_lines():
    lines = [line for line in BLOCKS[0].splitlines() if line and not line.startswith("#")]

    assert len(lines) <= 15


def test_the_table_of_events_is_the_catalogue():
    named = re.findall(r"^\| `([A-Z_]+)` \| (\w+)", README, re.MULTILINE)

    def kind(event):
        return "transform" if isinstance(event, events.TransformEvent) else "observe"

    by_name = {name: value for name, value in vars(events).items() if value in events.CATALOGUE}
    assert named == [
        (next(name for name, one in by_name.items() if one is event), kind(event))
        for event in events.CATALOGUE
    ]


def test_it_has_fewer_than_150_lines():
    assert len(README.splitlines()) < 150
