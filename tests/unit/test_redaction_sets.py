"""The sets that redaction is measured with: two halves by their names, the same in every run."""

import json

import pytest
from benchmarks.redaction import foreign, others, scanners, sets, texts
from benchmarks.redaction.corpus import is_reported
from benchmarks.redaction.misses import is_bad
from benchmarks.redaction.values import KINDS, Values

ENTRIES = [
    ("everyday", "contexts"),
    ("formats", "formats"),
    ("formats", "neighbours"),
    ("lookalike_shapes", "lookalikes"),
]


@pytest.mark.parametrize(("file", "key"), ENTRIES)
def test_the_hash_of_a_name_tells_its_half(file, key):
    halves = {half: sets._entries(file, key, reported=half) for half in (False, True)}

    assert all(is_reported(one["name"]) is half for half, some in halves.items() for one in some)
    names = [one["name"] for some in halves.values() for one in some]
    assert len(names) == len({*names}) > 20


@pytest.mark.parametrize("name", sets.SETS)
def test_a_set_is_the_same_in_every_run(name):
    assert sets.SETS[name](values=1) == sets.SETS[name](values=1)


@pytest.mark.parametrize("name", ["everyday", "formats"])
def test_a_case_holds_its_secret_and_no_gap(name):
    for reported in (False, True):
        for case in sets.SETS[name](reported=reported, values=2):
            assert case.secret in case.text
            assert not {*"«»⟦⟧¦"} & {*case.text}, case.name


def test_pairs_of_the_second_half_are_all_that_the_first_has_not():
    first, second = (sets.formats(reported=half, values=1) for half in (False, True))

    assert not {one.name for one in first} & {one.name for one in second}
    assert len(first) + len(second) == 24 * 24


@pytest.mark.parametrize(
    ("cleaned", "is_gone"),
    [
        ("token=[assigned-secret-1]", True),
        ("token=abcde…", True),
        ("token=…efghij!", False),
        ("token=abcdefghij", False),
    ],
)
def test_a_secret_is_gone_when_less_than_a_run_of_sixty_percent_is_there(cleaned, is_gone):
    assert sets.gone("abcdefghij", cleaned) is is_gone


def test_a_shape_is_drawn_with_its_classes_and_counts():
    value = Values("test").make(r"ab_[0-9a-f]{8}\.[XY]-[-_]{2}")

    assert value.startswith("ab_")
    assert len(value) == len("ab_") + 8 + len(".X-") + 2
    assert {*value[3:11]} <= {*"0123456789abcdef"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_gives_another_value_for_another_seed(kind):
    values = {Values(f"{number}").make(kind) for number in range(8)}

    assert len(values) > 1


def test_what_others_report_is_cut_out_and_what_was_encoded_by_its_place():
    findings = [others.Finding("ab"), others.Finding("abc"), others.Finding("", 2, (3, 6))]

    assert others._cut("x abc ab\nu QUJD v", findings) == "x  \nu  v"


def test_placeholders_that_a_text_had_are_no_alarms(monkeypatch):
    ours = scanners.Ours()
    texts = ["a [self-1] x", "two\nlines\nhere", "same [a-z]"]
    cleaned = ["a [self-1] [github-pat-1-abcdef]", scanners.WITHHELD, "same [a-z]"]
    monkeypatch.setattr(ours, "cleaned", lambda _: cleaned)

    assert ours.alarms(texts) == 1 + 3 + 0


def test_a_look_alike_is_bad_when_it_changes_and_a_secret_when_it_stays():
    assert is_bad(sets.Case("n", "g", "path", ""), "[x-1]")
    assert not is_bad(sets.Case("n", "g", "path", ""), "path")
    assert is_bad(sets.Case("n", "g", "k=abcdefghij", "abcdefghij"), "k=abcdefghij")
    assert not is_bad(sets.Case("n", "g", "k=abcdefghij", "abcdefghij"), "k=[x-1]")


@pytest.mark.full
@pytest.mark.parametrize("name", texts.TEXTS)
def test_real_text_has_two_halves(name):
    first, second = (texts.TEXTS[name](reported=half, limit=20_000) for half in (False, True))

    assert not {one.name for one in first} & {one.name for one in second} - {"grep 0"}
    assert not any(one.secret for one in [*first, *second])


def test_a_corpus_of_others_is_read_from_a_folder(tmp_path):
    rows = [{"text": "key=abcdefghij", "secret": "abcdefghij"}, {"text": "key=1", "secret": ""}]
    (tmp_path / "theirs.jsonl").write_text("\n".join(map(json.dumps, rows)))

    ((name, cases),) = foreign.load(tmp_path)

    assert name == "theirs"
    assert [(one.text, one.secret) for one in cases] == [
        (one["text"], one["secret"]) for one in rows
    ]


def test_a_secret_that_its_text_does_not_hold_is_refused(tmp_path):
    (tmp_path / "theirs.jsonl").write_text(json.dumps({"text": "key=1", "secret": "2"}))

    with pytest.raises(ValueError, match=r"theirs\.jsonl:1: the secret is not in the text"):
        list(foreign.load(tmp_path))
