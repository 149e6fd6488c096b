"""The binder of specs and tests, on small projects of its own."""

from fnmatch import fnmatch

import pytest

from spec_binder import bind

SPEC = """\
# bus

## Requirements

### Requirement: Order
Handlers SHALL run in one order.

#### Scenario: Higher priority runs first
- **GIVEN** two handlers
- **AND** one of them with a higher priority
- **WHEN** an event is dispatched,
  whatever it is
- **THEN** that one runs first

#### Scenario: None, and only None: no opinion
- **GIVEN** a handler
- **WHEN** it returns None
- **THEN** the value stays
"""

TESTS = """\
def test_higher_priority_runs_first():
    pass

async def test_none_and_only_none_no_opinion():
    pass
"""


@pytest.fixture
def write(pytester):
    """Write a project of files: `specs/bus.md` and its tests; return its folder."""

    def write(*, spec=SPEC, tests=TESTS, **more):
        files = {"specs/bus.md": spec, "tests/specs/test_bus.py": tests, **more}
        for name, text in files.items():
            path = pytester.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if text is not None:
                path.write_text(text, "utf-8")
        return pytester.path

    return write


@pytest.fixture
def run(pytester, write):
    """Run pytest with the binder in a project of files."""

    def run(*args, **files):
        write(**files)
        pytester.makeini("[pytest]")
        return pytester.runpytest("-p", "spec_binder", *args)

    return run


def find(folder, line):
    """Return the problems of the project in *folder* that *line* fits."""
    _, problems = bind(folder)
    return [problem for problem in problems if fnmatch(problem, line)]


def refused(result, *lines):
    result.stdout.fnmatch_lines(["*ERROR collecting specs*", *lines])
    assert result.ret == pytest.ExitCode.INTERRUPTED


def test_equal_lists_pass(run):
    tests = TESTS.replace("async ", "")

    run(tests=tests).assert_outcomes(passed=2)


def test_a_project_without_specs_passes(run):
    result = run(spec=None, tests=None, **{"tests/test_other.py": "def test_other(): pass"})

    result.assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("first", "last", "specs/bus.md:8: 'Higher priority runs last' has no test *_runs_last"),
        (
            "first",
            "last",
            "tests/specs/test_bus.py:1: test_higher_priority_runs_first has no scen*",
        ),
        ("runs first", "of two runs first, then the other", "specs/bus.md:8: *8 words, this one 9"),
        (
            "None, and only None: n",
            "higher priority runs first\nN",
            "*: two scenarios are called *",
        ),
        ("SHALL", "will", "specs/bus.md:5: a requirement has one SHALL, this one 0"),
        ("SHALL", "SHALL and SHALL", "specs/bus.md:5: a requirement has one SHALL, this one 2"),
        ("it returns", "it SHALL return", "specs/bus.md:15: SHALL belongs to the requirement"),
        ("- **WHEN** it", "It", "specs/bus.md:15: the steps are *, not GIVEN THEN"),
        ("#### Scenario: Higher", "#### Example: Higher", "specs/bus.md:8: neither *"),
        ("#### Scenario: Higher", "### Requirement: Higher", "*:5: a requirement needs a scenario"),
        ("### Requirement: Order", "## Order", "specs/bus.md:8: a scenario needs a requirement *"),
    ],
)
def test_a_changed_spec_is_refused(write, old, new, line):
    assert old in SPEC

    assert find(write(spec=SPEC.replace(old, new)), line)


@pytest.mark.parametrize(
    ("tests", "line"),
    [
        ("", "specs/bus.md:8: * has no test test_higher_priority_runs_first"),
        (TESTS + "def test_more(): pass", "*test_bus.py:6: test_more has no scenario"),
        (TESTS + TESTS, "*test_bus.py:6: two tests are called test_higher_priority_runs_first"),
        ("\n\n".join(TESTS.split("\n\n")[::-1]), "*:1: * stands where specs/bus.md:8 has 'Higher*"),
        (TESTS + "def (", "tests/specs/test_bus.py:6: invalid syntax"),
        ("import pytest\n@pytest.mark.skip\n" + TESTS, "*test_bus.py:2: a spec knows no skip"),
        ("from pytest import xfail as x\n" + TESTS, "*test_bus.py:1: a spec knows no xfail"),
    ],
)
def test_changed_tests_are_refused(write, tests, line):
    assert find(write(tests=tests), line)


def test_a_test_that_is_no_function_is_refused(run):
    tests = TESTS + "class TestMore:\n def test_it(self): pass"

    refused(run(tests=tests), "*TestMore::test_it: it has no scenario")


def test_a_spec_without_tests_is_refused(run):
    refused(run(tests=None), "specs/bus.md: no tests for it, no tests/specs/test_bus.py")


def test_tests_without_a_spec_are_refused(run):
    refused(run(spec=None), "tests/specs/test_bus.py: no spec for it, no specs/bus.md")


def test_a_skip_in_the_conftest_of_the_specs_is_refused(run):
    conftest = {"tests/specs/conftest.py": "from pytest import skip"}

    refused(run(**conftest), "tests/specs/conftest.py:1: a spec knows no skip")


@pytest.mark.parametrize("args", [["-k", "other"], ["--collect-only"], ["--lf"], ["tests/unit"]])
def test_no_selection_hides_a_gap(run, args):
    other = {"tests/unit/test_other.py": "def test_other(): pass"}

    result = run(*args, tests="", **other)

    refused(result, "specs/bus.md:8: *")


def test_a_failing_scenario_shows_its_words(run):
    tests = TESTS.replace("async ", "").replace("pass", "assert False", 1)

    result = run(tests=tests)

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*the scenario*",
            "specs/bus.md:8 Scenario: Higher priority runs first",
            "- [*][*]GIVEN[*][*] two handlers",
        ]
    )


def test_cases_of_one_scenario_share_its_name(run):
    cases = "import pytest\n@pytest.mark.parametrize('n', [1, 2])\n"
    tests = cases + TESTS.replace("first()", "first(n)").replace("async ", "")

    run(tests=tests).assert_outcomes(passed=3)
