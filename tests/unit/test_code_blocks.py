"""The test of pages, tried on pages that are wrong."""

import pytest

from code_blocks import PageRun, read_code_blocks

TRUE = {
    "python": "print('a')\nprint('b 7 c')\n# a\n# b … c\n",
    "a file": "# quiet.py\nx = 1\n",
    "console": "$ toolbus policy init p.toml\np.toml is …\n…\n$ cat p.toml | head -1\n…\n",
    "sh": "toolbus policy init p.toml   # a policy\nls p.toml\n",
    "json": '{"a": 1}\n',
    "toml": '[[rule]]\nname = "r"\nverdict = "deny"\ntools = ["x"]\n',
}
WRONG = {
    "it prints something else": ("python", "print('a')\n# b\n"),
    "it prints more": ("python", "print('a')\nprint('b')\n# a\n"),
    "it prints nothing": ("python", "x = 1\n"),
    "it shows nothing": ("python", "print('a')\n"),
    "no such option": ("sh", "toolbus show x.db --fast\n"),
    "no such command": ("sh", "true && toolbus fly\n"),
    "it fails": ("sh", "toolbus show missing.db s\n"),
    "other output": ("console", "$ echo a\nb\n"),
    "no reason": ("text", "a\n"),
    "no policy": ("toml", "[[rule]]\nverdct = 1\n"),
}


def run(folder, patch, kind, text, note=""):
    (block,) = read_code_blocks("a.md", f"{note}\n```{kind}\n{text}```\n")
    PageRun(folder, patch).run(block)


@pytest.mark.parametrize("name", TRUE)
def test_what_is_true_passes(tmp_path, monkeypatch, name):
    run(tmp_path, monkeypatch, "python" if name == "a file" else name, TRUE[name])


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_fails(tmp_path, monkeypatch, name):
    with pytest.raises(AssertionError):
        run(tmp_path, monkeypatch, *WRONG[name])


def test_what_is_not_run_is_read(tmp_path, monkeypatch):
    note = "<!-- not run: it needs a server -->"
    for number, kind in enumerate(("python", "sh", "toml", "json")):
        folder = tmp_path / str(number)
        folder.mkdir()
        wrong = "toolbus fly\n" if kind == "sh" else "{]\n"
        with pytest.raises((AssertionError, ValueError, SyntaxError)):
            run(folder, monkeypatch, kind, wrong, note)


@pytest.mark.full
def test_a_person_answers_what_is_asked(tmp_path, monkeypatch):
    page, file = PageRun(tmp_path, monkeypatch), tmp_path / ".cursor/hooks.json"
    own = tmp_path / ".config/toolbus/toolbus.toml"
    own.parent.mkdir(parents=True)
    own.write_text('[[component]]\nuse = "redact-secrets"\n')
    line = "```sh\ntoolbus hosts install cursor\n```\n"
    turning = '"next page, q ends:": ""'
    refusing, agreeing = [
        read_code_blocks(
            "a.md", f'<!-- person: {{{turning}, "write this?": "{word}"}} -->\n{line}'
        )[0]
        for word in "ny"
    ]

    with pytest.raises(AssertionError, match="nothing was written"):
        page.run(refusing, full=True)
    assert not file.exists()
    page.run(agreeing, full=True)
    assert file.exists()


def test_a_server_takes_the_place_of_an_address(tmp_path, monkeypatch):
    page = PageRun(tmp_path, monkeypatch, {"db://far": "db://near?a=1&b=2"})
    note, shown = "<!-- server: db://far -->", "$ echo at db://far\nat db://near?a=1&b=2\n"
    (block,) = read_code_blocks("a.md", f"{note}\n```console\n{shown}```\n")

    page.run(block, full=True)


OTHER_FORMS = (
    "```ruby\n```\n",
    "<!-- because -->\n",
    "<!-- not run: -->\n```sh\nx\n```\n",
    "<!-- slow: yes -->\n```sh\nx\n```\n",
    "<!-- full: slow -->\n\nText.\n",
    "```sh\nx\n",
)


@pytest.mark.parametrize("page", OTHER_FORMS)
def test_a_page_of_another_form_is_refused(page):
    with pytest.raises(AssertionError):
        read_code_blocks("a.md", page)
