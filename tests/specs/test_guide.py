"""The scenarios of `specs/guide.md`."""

import asyncio
import doctest
import inspect
import json
import re
from pathlib import Path

import pytest

import toolbus
from code_blocks import PageRun, read_code_blocks
from host_programs import PROGRAMS
from host_runs import HostFolders, run_host
from oauth_servers import stub_in_background, write_browser
from terminals import on_terminal
from toolbus.cli.command_line import main
from toolbus.models import ScriptedModel

FOLDER = Path(toolbus.__file__).parent / "cli/guide"
PAGES = {path.stem: path.read_text("utf-8") for path in sorted(FOLDER.glob("*.md"))}
STAND_INS = {
    "postgresql://agents@db.example.com/agents": "postgres_service",
    "https://example.com/mcp": "login_server",
}
BLOCKS = {name: read_code_blocks(f"{name}.md", text) for name, text in PAGES.items()}


@pytest.fixture
def guide(capsys):
    """Return a function that gives the exit code of `toolbus guide`, and what it printed."""

    def run(*words):
        code = main(["guide", *words])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


@pytest.fixture
def postgres_service(postgres, tmp_path, monkeypatch):
    """Return the address of an empty database, which is the service `agents` as well."""
    name, file = postgres.create_database(), tmp_path / "services"
    file.write_text(
        f"[agents]\nhost={postgres.folder}\nport={postgres.port}\nuser=postgres\ndbname={name}\n"
    )
    monkeypatch.setenv("PGSERVICEFILE", str(file))
    return postgres.address(name)


@pytest.fixture
def login_server(tmp_path, monkeypatch):
    """Return the address of a server with OAuth, to which the person's browser agrees."""
    monkeypatch.setenv("BROWSER", write_browser(tmp_path / "browser"))
    with stub_in_background() as address:
        yield address


@pytest.fixture
def full_page(request, name, tmp_path, monkeypatch):
    """Return what runs the page *name*, with servers in place of those that it names."""
    wanted = {block.notes["server"] for block in BLOCKS[name] if "server" in block.notes}
    servers = {address: request.getfixturevalue(STAND_INS[address]) for address in wanted}
    page = PageRun(tmp_path, monkeypatch, servers)
    yield page
    page.close()


@pytest.fixture
def topics(guide):
    """Return the topics, as the command lists them."""
    return [json.loads(line) for line in guide("--json")[1].splitlines()]


def test_topics_come_with_their_summaries(guide, topics):
    code, listed, errors = guide()

    assert (code, errors) == (0, "")
    assert [one["topic"] for one in topics] == re.findall(r"^  ([a-z-]+)  ", listed, re.MULTILINE)
    for topic in topics:
        (line,) = re.findall(rf"^  {topic['topic']}  +(.+)$", listed, re.MULTILINE)
        assert line == topic["summary"]


def test_a_page_is_markdown_in_a_pipe(guide):
    for name, text in PAGES.items():
        assert guide(name) == (0, text, "")


@pytest.mark.parametrize("name", ["first-agent", "failures"])
def test_a_terminal_gets_the_page_formatted(environment, tmp_path, name):
    environment |= {"NO_COLOR": "1", "PAGER": "cat"}

    code, written = on_terminal(environment, tmp_path, "guide", name)

    page, fence = PAGES[name], re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
    assert code == 0
    assert fence.findall(written) == fence.findall(page)
    assert max(map(len, fence.sub("", written).splitlines())) <= 80
    assert max(map(len, fence.sub("", page).splitlines())) > 80
    assert "<!--" not in written


def test_all_pages_come_at_once(guide, topics):
    pages = [PAGES[one["topic"]] for one in topics]

    assert guide("--all") == (0, "\n".join(pages), "")


def test_a_wrong_topic_names_similar_topics(guide, topics):
    names = ", ".join([one["topic"] for one in topics])
    for word, hint in (
        ("frst-agent", "; did you mean 'first-agent'?"),
        ("first", "; did you mean 'first-agent'?"),
        ("scriptedmodel", "; the word is in "),
        ("xyzzyx", f"; topics: {names}"),
    ):
        code, printed, error = guide(word)

        assert (code, printed) == (2, "")
        assert error.startswith(f"error: no topic {word!r}{hint}")
        assert error.endswith("; see `toolbus guide`\n")


def test_programs_read_the_guide_as_json(guide, topics):
    for topic in topics:
        (line,) = guide(topic["topic"], "--json")[1].splitlines()

        text = PAGES[topic["topic"]]
        assert json.loads(line) == topic | {"text": text}
        assert text.startswith(f"# {topic['title']}\n\n{topic['summary'].split()[0]}")


def test_each_page_is_a_topic(topics):
    assert sorted(one["topic"] for one in topics) == sorted(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_begins_with_its_use(name):
    title, summary, _ = PAGES[name].split("\n\n", 2)

    assert re.fullmatch(r"# \S.*", title)
    assert re.fullmatch(r"[A-Z`][^\n.]*(\n[^\n]+)?[.]", summary)
    lines = PAGES[name].splitlines()
    assert name in {"changelog", "upgrading"} or len(lines) <= 180
    assert max([len(line) for line in lines if not line.startswith(("|", "<!--", "# "))]) <= 100


def test_links_lead_to_topics():
    for name, text in PAGES.items():
        assert set(re.findall(r"`toolbus guide ([a-z-]+)", text)) <= set(PAGES), name


@pytest.mark.parametrize("name", PAGES)
def test_a_block_does_what_it_shows(name, tmp_path, monkeypatch):
    page = PageRun(tmp_path, monkeypatch)

    for block in BLOCKS[name]:
        page.run(block)


@pytest.mark.full
@pytest.mark.parametrize("name", PAGES)
def test_a_slow_block_does_what_it_shows(full_page, name):
    for block in BLOCKS[name]:
        full_page.run(block, full=True)


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(PAGES.keys() & PROGRAMS.keys()))
def test_a_host_obeys_its_page(full_page, name, tmp_path):
    def do_what_it_says():
        for block in BLOCKS[name]:
            full_page.run(block, full=True)

    host = PROGRAMS[name]
    calls = [host.shell("git push"), host.shell("echo al''lowed")]

    run = run_host(host, HostFolders(tmp_path), [[call] for call in calls], do_what_it_says)

    assert run.model.problems == [], run.output
    assert "a person pushes" in run.model.result(0)
    assert "allowed" in run.model.result(1)


@pytest.mark.parametrize("name", sorted({*toolbus.__all__} - {"ToolbusError", "events"}))
def test_each_public_name_has_an_example(name):
    def greet(name: str) -> str:
        return f"hello {name}"

    public = {each: getattr(toolbus, each) for each in toolbus.__all__}
    names = {**public, "asyncio": asyncio, "ScriptedModel": ScriptedModel, "greet": greet}
    text = inspect.getdoc(public[name])

    example = doctest.DocTestParser().get_doctest(text, names, name, None, None)

    assert example.examples
    report = []
    doctest.DocTestRunner().run(example, out=report.append)
    assert report == []
