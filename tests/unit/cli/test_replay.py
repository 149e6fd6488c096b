"""The replay command with failing user code, and with a reader that leaves."""

import json
from io import StringIO

import pytest

from toolbus.cli.command_line import main
from toolbus.cli.output.replay_report import JsonReport
from toolbus.cli.output.stream import Output, ProgressLine
from toolbus.cli.replay import command
from toolbus.formats.native import EndLine, MessageLine, SessionLine, encode_line
from toolbus.messages.records import UserMessage
from toolbus.settings.usage_error import UsageError

INSTALLED = """
from toolbus import AgentComponent
class Rules(AgentComponent):
    async def install(self, agent):
        print("installed")
    async def close(self):
        print("closed")
"""


class Gone(StringIO):
    """A reader that left."""

    def write(self, text):
        raise BrokenPipeError(32, "Broken pipe")


def replay(source, target, *words, output=None):
    parser, run = command()
    parsed = parser.parse_all([str(source), f"--with={target}", *words])
    return run(parsed, output or Output(StringIO()))


@pytest.fixture
def log(tmp_path):
    file = tmp_path / "log.jsonl"
    lines = [MessageLine(message=UserMessage(id=str(at), content="hi")) for at in range(200)]
    lines = [SessionLine(id="s"), *lines, EndLine(messages=200, records=0)]
    file.write_bytes(b"".join(map(encode_line, lines)))
    return file


@pytest.fixture
def rules(tmp_path):
    file = tmp_path / "rules.py"
    file.write_text(INSTALLED)
    return file


def test_components_are_installed_and_closed(log, rules, capsys):
    code = replay(log, rules)

    assert code == 0
    assert capsys.readouterr().err == "installed\nclosed\n"


def test_handlers_may_be_those_of_a_configuration(log, rules, tmp_path, capsys):
    (tmp_path / "toolbus.toml").write_text('[[component]]\nuse = "./rules.py:Rules"\n')

    code = replay(log, tmp_path / "toolbus.toml")

    assert code == 0
    assert capsys.readouterr().err == "installed\nclosed\n"


def test_a_component_that_cannot_be_installed_is_named(log, rules):
    rules.write_text(INSTALLED.replace('print("installed")', "1 // 0"))

    with pytest.raises(UsageError, match="cannot be installed: ZeroDivisionError"):
        replay(log, rules)


def test_a_reader_that_left_ends_it(log, rules):
    output = Output(Gone())

    assert replay(log, rules, output=output) == 0
    assert isinstance(output.lost, BrokenPipeError)


def test_a_session_that_is_nowhere_is_wrong_use(log, rules):
    with pytest.raises(UsageError, match="no session 'x' in the sources"):
        replay(log, rules, "--session=x")


def test_a_source_that_cannot_be_opened_costs_only_itself(log, rules, tmp_path, capsys):
    (tmp_path / "broken.db").write_bytes(b"SQLite format 3\0" + b"x" * 100)
    stream = StringIO()

    code = replay(tmp_path, rules, output=Output(stream))

    assert code == 1
    assert "broken.db cannot be read: store" in capsys.readouterr().err
    assert "1 session, 200 messages" in stream.getvalue()


def test_only_so_many_problems_are_named(log, rules, capsys):
    log.write_bytes(b"[\n" * 50)

    replay(log, rules, "--format=toolbus")

    said = capsys.readouterr().err
    assert said.count("cannot be read: ") == 20
    assert "30 more lines cannot be read" in said


def test_kinds_are_bounded():
    report = JsonReport(Output(StringIO()), ProgressLine(Output(StringIO())))
    for at in range(500):
        report.skip(f"{'x' * 100}{at}"[at % 50 :])

    assert len(report.skipped) <= 101
    assert max(map(len, report.skipped)) <= 60
    assert report.skipped.total() == 500


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--update"], "--update needs --check FILE"),
        (["--max-line", "many"], "expected a whole number of megabytes, got 'many'"),
        (["--format", "xml"], "unknown value 'xml'; known: anthropic, "),
    ],
)
def test_wrong_options_are_named(words, reason, log, rules, capsys):
    assert main(["replay", str(log), "--with", str(rules), *words]) == 2
    assert reason in capsys.readouterr().err


def test_the_longest_line_may_be_given(log, rules, capsys):
    log.write_bytes(b" " + b"x" * 2**20 + b"x\n" + log.read_bytes())

    code = main(
        ["replay", str(log), "--with", str(rules), "--format", "toolbus", "--max-line", "1"]
    )

    assert code == 1
    assert "longer than 1048576 bytes; give a higher limit" in capsys.readouterr().err


def test_a_document_says_how_it_differs(log, rules, capsys, tmp_path):
    check = ["--check", str(tmp_path / "e.json")]
    words = ["replay", str(log), "--with", str(rules), "--json", *check]
    assert main([*words, "--update"]) == 0
    log.write_bytes(
        log.read_bytes().replace(b'{"type":"end","messages":200', b'{"type":"end","messages":9')
    )
    capsys.readouterr()

    code = main(words)

    document = json.loads(capsys.readouterr().out)
    assert code == 1
    assert document["differences"] == ["totals", "  - unreadable 0", "  + unreadable 1"]


def test_an_export_of_nothing_is_named(tmp_path, capsys):
    assert main(["export", str(tmp_path / "no.db")]) == 2
    assert "there is no such file" in capsys.readouterr().err
