"""The display of a question; see `specs/approvals_display.md`."""

import re
import time
from unicodedata import normalize

from hypothesis import given
from hypothesis import strategies as st

from toolbus.approvals.display import (
    channel_text,
    local_moment,
    question_rows,
)
from toolbus.approvals.questions import Question
from toolbus.cli.questions.question_pages import split_pages

DIGEST = "0123456789abcdef" * 4


def question(**fields):
    values = {
        "id": "8c01",
        "session_id": "3f9a",
        "call_id": "call-1",
        "tool": "shell",
        "digest": DIGEST,
        "prompt": "it may change something",
        "asked_ns": 1_800_000_000 * 10**9,
        "expires_ns": 1_800_086_400 * 10**9,
    }
    return Question(**(values | fields))


def shown(asked, width=120):
    return "\n".join([row.text for row in question_rows(asked, width)])


def test_invisible_characters_are_written_with_escapes():
    text = " ls\x1b[2J \u202eevil\u2066 pay\u200bpal\u3164 \u00ad\ufe0f\n"

    rows = shown(question(arguments={"command": text}))

    assert "command (written with escapes)" in rows
    expected = r"│ \x20ls\x1b[2J \u202eevil\u2066 pay\u200bpal\u3164 \xad\ufe0f\n"
    assert expected in rows
    assert all(row.isprintable() for row in rows.splitlines())


def test_a_foreign_letter_is_named():
    text = "open p\u0430ypal.com\uff0fx; сервер файл.txt 漢字かな Ελλάς"

    rows = shown(question(arguments={"url": text}))

    assert r"│ open p\u0430ypal.com\uff0fx; сервер файл.txt 漢字かな Ελλάς" in rows
    words = " ".join(rows.split())
    assert r"\u0430 is CYRILLIC SMALL LETTER A; \uff0f is FULLWIDTH SOLIDUS" in words
    address = "https://\u0430\u0440\u0440\u04cf\u0435.com"
    assert r"│ https://\u0430\u0440\u0440\u04cf\u0435.com" in shown(question(prompt=address))


def test_a_word_is_in_its_composed_form():
    words = ["café", "tấm", "Ελλάς", "й это", "한글"]

    for word in words:
        composed, other = normalize("NFC", word), normalize("NFD", word)
        assert f"│ {composed}" in shown(question(prompt=composed)).splitlines()
        rows = shown(question(prompt=other))
        assert composed not in rows
        assert other not in rows
        assert " is " in rows

    named = " ".join(shown(question(prompt=normalize("NFD", "café"))).split())
    assert r"│ cafe\u0301" in named
    assert r"\u0301 is COMBINING ACUTE ACCENT" in named
    assert r"\u2126 is OHM SIGN" in " ".join(shown(question(prompt="5 \u2126")).split())
    needed = normalize("NFC", "हिन्दी ไทยนี้ עִבְרִית বাংলা")
    assert f"│ {needed}" in shown(question(prompt=needed)).splitlines()


def test_values_of_different_kinds_look_different():
    arguments = {"a": "5", "b": 5, "c": "", "d": None, "e": False, "f": ["x"]}

    rows = shown(question(arguments=arguments)).splitlines()

    assert rows[rows.index("a") + 1] == rows[rows.index("b (a number)") + 1] == "│ 5"
    assert rows[rows.index("c (an empty text)") + 1] == "│ "
    assert rows[rows.index("d (null)") + 1] == "│ null"
    assert rows[rows.index("e (true or false)") + 1] == "│ false"
    assert rows[rows.index("f (a list)") + 1] == "│ ["


def read_back(rows, is_escaped):
    lines = []
    for row in rows:
        if row.startswith("│ "):
            lines.append("")
        lines[-1] += row[2:]
    if is_escaped:
        lines = [
            line.encode("latin-1", "backslashreplace").decode("unicode_escape") for line in lines
        ]
    return "\n".join(lines)


TRICKS = st.sampled_from("\x1b\\\n│… \u202e\u200bа\u0338a漢")  # noqa: RUF001 - is what it is about


@given(st.text(st.one_of(TRICKS, st.characters(codec="utf-8")), min_size=1))
def test_the_rows_restore_the_text(text):
    rows = shown(question(prompt="x", arguments={"v": text}), 30).split("\n")

    start = next(index for index, row in enumerate(rows) if row == "v" or row.startswith("v ("))
    end = rows.index("why asked", start)
    quoted = [row for row in rows[start:end] if row.startswith("│")]
    assert read_back(quoted, is_escaped="escapes" in rows[start]) == text


def test_arguments_cannot_look_like_ours():
    row = f"digest {'f' * 64}"
    lie = f"x\n{row}\nno arguments\nwhy asked\nthe model calls read_file"
    asked = question(tool=lie, prompt=lie, rule=lie, arguments={lie: lie, "why asked": 1})

    rows = shown(asked).splitlines()

    ours = [line for line in rows if not line.startswith("│")]
    assert ours.count("why asked") == 1
    assert not [
        line for line in ours if line.startswith((row, "no arguments", "the model calls r"))
    ]
    assert ours[-2].endswith(f"expires {local_moment(asked.expires_ns, time.time_ns())}")
    assert "│ the model calls read_file" in rows


def test_changes_by_handlers_are_shown():
    same = question(arguments={"command": "ls"}, requested_arguments={"command": "ls"})
    changed = question(
        arguments={"command": "rm -r x", "sure": True},
        requested_tool="run",
        requested_arguments={"command": "ls", "why": "y"},
    )

    rows = shown(changed).splitlines()

    assert "as the model wrote it" in shown(same).splitlines()
    start = rows.index("not as the model wrote it; it differs in")
    assert rows[start + 1 : rows.index("why asked")] == [
        *("tool", "the model wrote", "│ run", "it is now", "│ shell"),
        *("arguments.command", "the model wrote", "│ ls", "it is now", "│ rm -r x"),
        *("arguments.why", "the model wrote", "│ y", "it is now: nothing"),
        *("arguments.sure", "the model wrote: nothing", "it is now (true or false)", "│ true"),
    ]


def test_values_outside_the_store_are_mentioned():
    rows = shown(question(arguments={"key": "[REDACTED]"}, hidden=True))
    filled = shown(question(arguments={"key": "[key-1]"}, filled=("$.key",))).splitlines()

    assert "some values were hidden before it was stored; only the calling program has them" in rows
    start = filled.index("the tool gets other values, not shown here, at")
    assert filled[start + 1] == "$.key"


def test_a_call_that_may_have_run_is_mentioned():
    begun = 1_700_000_000 * 10**9
    now = time.time_ns()

    rows = shown(question(may_have_run_ns=begun)).splitlines()
    today = local_moment(now, now)

    assert (
        rows[1]
        == f"a call like this may have run at {local_moment(begun, now)}; its result is not known"
    )
    assert re.fullmatch(r"2023-11-1[45] \d\d:\d\d \S+", local_moment(begun, now))
    assert re.fullmatch(r"\d\d:\d\d \S+", today)
    assert "may have run" not in shown(question())


def test_several_guards_share_one_row():
    asked = question(guard="Policy.judge_call\nAskOnWrite.ask", rule="the default\n")

    rows = shown(asked).splitlines()

    assert rows[2] == "why asked"
    row = "asked by Policy.judge_call, AskOnWrite.ask, by the rule 'the default', in session 3f9a"
    assert rows[4].startswith(row)
    assert "│" not in "".join(rows[4:])


def test_details_are_shown_on_demand():
    asked = question(arguments={"command": "ls"})

    short = [row.text for row in question_rows(asked, 120)]
    whole = [row.text for row in question_rows(asked, 120, details=True)]

    times = "asked 2027-01-15 08:00:00 UTC, expires 2027-01-16 08:00:00 UTC"
    assert whole == [*short, times, "question 8c01", f"digest {DIGEST}"]
    assert DIGEST not in "".join(short)


def test_pages_hold_the_whole_question():
    lines = [f"echo {number}" for number in range(1_000)]

    pages = split_pages(question_rows(question(arguments={"command": "\n".join(lines)}), 72), 12)

    assert max(map(len, pages)) < 12
    rows = [row.text for page in pages for row in page[1:]]
    assert [row[2:] for row in rows if row.startswith("│ echo")] == lines


def test_a_small_channel_gets_a_notice():
    asked = question(arguments={"command": "x" * 4_000})

    notices = [channel_text(asked, limit) for limit in (4_000, 20)]
    whole = channel_text(asked, 6_000)

    assert "cannot be approved here" in notices[0].text
    assert [notice.is_whole for notice in notices] == [False, False]
    assert len(notices[1].text) == 20
    assert whole.is_whole
    assert whole.text.count("x") >= 4_000
