from hypothesis import given
from hypothesis import strategies as st

from toolbus.workspace.line_differences import compare_lines, describe_size

LINES = st.lists(st.sampled_from(["a", "b", "", "+c", "-d", "@@", "e\r"]), max_size=30)
TEXTS = st.builds(lambda lines, end: "\n".join(lines) + end, LINES, st.sampled_from(["", "\n"]))


def patched(before: str, lines: tuple[str, ...]) -> str:
    """Return what `patch` makes of *before* with the *lines* of a unified difference."""
    old, new, at, last = before.split("\n"), [], 0, ""
    ended = before.endswith("\n") or not before
    if ended:
        old.pop()
    for line in lines:
        if line.startswith("@@"):
            start, count = map(int, line.split()[1][1:].split(","))
            start -= 1 if count else 0
            new += old[at:start]
            at = start
        elif line.startswith("\\"):
            ended = last == "-"
        else:
            if line[0] in " -":
                assert old[at] == line[1:]
                at += 1
            if line[0] in " +":
                new.append(line[1:])
                ended = True
        last = line[0]
    if at < len(old):
        new, ended = new + old[at:], before.endswith("\n")
    return "\n".join(new) + ("\n" if ended and new else "")


@given(TEXTS, TEXTS)
def test_a_difference_makes_one_text_of_the_other(before, after):
    difference = compare_lines(before, after)

    assert patched(before, difference.lines) == after
    assert bool(difference.lines) == (before != after)


def test_a_missing_line_end_and_a_carriage_return_are_differences():
    assert compare_lines("a\n", "a").lines == (
        "@@ -1,1 +1,1 @@",
        "-a",
        "+a",
        "\\ No newline at end of file",
    )
    assert compare_lines("a\r\n", "a\n").lines == ("@@ -1,1 +1,1 @@", "-a\r", "+a")


def test_only_what_is_around_a_change_is_compared():
    lines = [str(number) for number in range(200_000)]
    after = [*lines[:100_000], "x", *lines[100_001:]]

    difference = compare_lines("\n".join(lines), "\n".join(after))

    assert difference.lines == (
        "@@ -99998,7 +99998,7 @@",
        " 99997",
        " 99998",
        " 99999",
        "-100000",
        "+x",
        " 100001",
        " 100002",
        " 100003",
    )
    assert difference.summary == "1 line added, 1 removed"


def test_texts_that_are_too_large_to_compare_replace_each_other():
    old = [f"old {number}" for number in range(3_000)]
    new = [f"new {number}" for number in range(3_000)]
    before, after = ("\n".join(["same", *lines[:1_500], "mid", *lines]) for lines in (old, new))

    difference = compare_lines(before, after)

    assert (difference.added, difference.removed) == (4_501, 4_501)
    assert difference.lines[:3] == ("@@ -1,4502 +1,4502 @@", " same", "-old 0")


def test_lines_are_counted():
    sizes = [describe_size(text) for text in ("", "a", "a\n", "a\nb", "\n\n")]

    assert sizes == ["0 lines", "1 line", "1 line", "2 lines", "2 lines"]
