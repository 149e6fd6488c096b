"""Binds `specs/X.md` to `tests/specs/test_X.py`: each scenario is the test of its name, in order.

Both sides are read from their files, so a gap fails the run whatever tests were selected.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

SHALL = re.compile(r"\bSHALL\b")
STEP = re.compile(r"^- \*\*(\w+)\*\* ", re.MULTILINE)
STEPS = re.compile(r"GIVEN( AND)* WHEN( AND)* THEN( AND)*")
REFUSED = {"skip", "skipif", "skipTest", "SkipTest", "xfail", "importorskip", "expectedFailure"}
REFUSED_WORD = re.compile(rf"\b(?:{'|'.join(sorted(REFUSED))})\b")
MAX_WORDS = 8
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Block:
    """A heading of a spec with the lines below it."""

    place: str
    kind: str
    title: str
    text: str = ""

    @property
    def test(self) -> str:
        return "test_" + re.sub(r"[^a-z0-9]+", "_", self.title.lower()).strip("_")


def read_blocks(path: Path, name: str) -> list[Block]:
    """Return the requirements, scenarios and stray headings of the spec *path*, in order."""
    blocks: list[Block] = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if line.startswith("###"):
            kind, _, title = line.partition(": ")
            blocks.append(Block(f"{name}:{number}", kind, title.strip()))
        elif blocks and not line.startswith("#"):
            blocks[-1].text += f"{line}\n"
    return blocks


def check_form(blocks: list[Block]) -> Iterator[str]:
    """Yield what is wrong with the form of a spec."""
    if blocks and blocks[0].kind == "#### Scenario":
        yield f"{blocks[0].place}: a scenario needs a requirement above it"
    for block, after in pairwise([*blocks, Block("", "", "")]):
        if block.kind == "#### Scenario":
            yield from check_scenario(block)
        elif block.kind == "### Requirement":
            if (shalls := len(SHALL.findall(block.text))) != 1:
                yield f"{block.place}: a requirement has one SHALL, this one {shalls}"
            if after.kind != "#### Scenario":
                yield f"{block.place}: a requirement needs a scenario"
        else:
            yield f"{block.place}: neither '### Requirement: …' nor '#### Scenario: …'"


def check_scenario(block: Block) -> Iterator[str]:
    """Yield what is wrong with the form of one scenario."""
    if (words := len(block.title.split())) > MAX_WORDS:
        yield f"{block.place}: a title has at most {MAX_WORDS} words, this one {words}"
    if not STEPS.fullmatch(steps := " ".join(STEP.findall(block.text))):
        yield f"{block.place}: the steps are GIVEN, WHEN, THEN, not {steps or 'none'}"
    if SHALL.search(block.text):
        yield f"{block.place}: SHALL belongs to the requirement"


def read_tests(path: Path, name: str) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the tests of *path* with their places, and every way of theirs not to run."""
    text = path.read_text("utf-8")
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        return [], [f"{name}:{error.lineno}: {error.msg}"]
    functions = [node for node in tree.body if isinstance(node, FUNCTION)]
    tests = [(node.name, f"{name}:{node.lineno}") for node in functions]
    problems = [
        f"{name}:{node.lineno}: a spec knows no {word}"
        # Few files have such a word at all, and all trees together are large.
        for node in (ast.walk(tree) if REFUSED_WORD.search(text) else ())
        for word in REFUSED & {getattr(node, field, None) for field in ("id", "attr", "name")}
    ]
    return [(test, place) for test, place in tests if test.startswith("test")], problems


def check_pair(scenarios: list[Block], tests: list[tuple[str, str]]) -> Iterator[str]:
    """Yield where the *tests* are not the *scenarios*, one by one and in order."""
    wanted = Counter(scenario.test for scenario in scenarios)
    found = Counter(test for test, _ in tests)
    for scenario in scenarios:
        if wanted[scenario.test] > 1:
            yield f"{scenario.place}: two scenarios are called {scenario.title!r}"
        elif not found[scenario.test]:
            yield f"{scenario.place}: {scenario.title!r} has no test {scenario.test}"
    for test, place in tests:
        if found[test] > 1:
            yield f"{place}: two tests are called {test}"
        elif not wanted[test]:
            yield f"{place}: {test} has no scenario"
    if wanted == found:
        for scenario, (test, place) in zip(scenarios, tests, strict=True):
            if scenario.test != test:
                yield f"{place}: {test} stands where {scenario.place} has {scenario.title!r}"
                return  # One test out of order moves all that follow.


def bind(root: Path) -> tuple[dict[tuple[Path, str], Block], list[str]]:
    """Return the scenario of each test below *root*, and all that does not fit."""
    bound: dict[tuple[Path, str], Block] = {}
    problems: list[str] = []
    specs = {path.stem: path for path in sorted((root / "specs").glob("*.md"))}
    for path in sorted((root / "tests/specs").rglob("*.py")):
        name = path.relative_to(root).as_posix()
        tests, wrong = read_tests(path, name)
        problems += wrong
        capability = path.stem.removeprefix("test_")
        if name == f"tests/specs/test_{capability}.py" and capability in specs:
            blocks = read_blocks(specs.pop(capability), f"specs/{capability}.md")
            scenarios = [block for block in blocks if block.kind == "#### Scenario"]
            problems += [*check_form(blocks), *check_pair(scenarios, tests)]
            bound |= {(path, scenario.test): scenario for scenario in scenarios}
        elif path.name != "conftest.py":
            problems.append(f"{name}: no spec for it, no specs/{capability}.md")
    problems += [
        f"specs/{name}.md: no tests for it, no tests/specs/test_{name}.py" for name in specs
    ]
    return bound, problems


BOUND = pytest.StashKey[dict[tuple[Path, str], Block]]()


def scenario_of(item: pytest.Item) -> Block | None:
    """Return the scenario that *item* tests."""
    return item.config.stash[BOUND].get((item.path, getattr(item, "originalname", "")))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Fail the collection, and so the run, when specs and tests differ."""
    config.stash[BOUND], problems = bind(config.rootpath)
    folder = config.rootpath / "tests/specs"
    strays = [item for item in items if item.path.is_relative_to(folder) and not scenario_of(item)]
    # The files show functions only; pytest knows other ways to make a test.
    problems += [f"{item.nodeid}: it has no scenario" for item in strays if not problems]
    outcome, text = ("failed", "\n".join(problems)) if problems else ("passed", None)
    # Also when all is well, or `--lf` would remember an old failure for ever.
    report = pytest.CollectReport("specs", outcome, text, [])
    config.hook.pytest_collectreport(report=report)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Show the words of the scenario that failed."""
    report = yield
    if report.failed and (scenario := scenario_of(item)):
        words = f"{scenario.place} Scenario: {scenario.title}\n{scenario.text.strip()}"
        report.sections.append(("the scenario", words))
    return report
