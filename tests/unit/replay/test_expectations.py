"""Expectation files: what is kept of a finding, what differs, and files that are none."""

import json

import pytest

from toolbus.replay.expectations import Expectation, compare, read_expectation
from toolbus.replay.findings import ReplayFinding, ReplayTotals
from toolbus.settings.differences import Difference
from toolbus.settings.usage_error import UsageError


def expectation(*findings, **totals):
    made = Expectation()
    for one in findings:
        made.add(one)
    made.close(ReplayTotals(**totals))
    return made


def finding(subject="c", outcome="changed", **more):
    return ReplayFinding(session="s", role="call", subject=subject, outcome=outcome, **more)


def test_what_is_written_is_read_and_equal(tmp_path):
    changes = (Difference(path="a", before="secret", after="x"), Difference(path="b", before=1))
    made = expectation(finding(changes=changes, reason="why", by=("h",), tool="look", reads="r"))

    made.write(tmp_path / "e.json")
    read = read_expectation(tmp_path / "e.json")

    assert list(compare(read, made)) == []
    assert json.loads(read.sessions["s"][0])["after"] == {"a": "x", "b": "(taken away)"}
    assert "secret" not in (tmp_path / "e.json").read_text()


def test_a_long_text_is_kept_by_its_digest():
    one, two = [
        expectation(finding(changes=(Difference(path="a", after=value),)))
        for value in ("x" * 1_000, "x" * 999 + "y")
    ]

    (kept,) = map(json.loads, one.sessions["s"])
    assert len(kept["after"]["a"]) < 500
    assert "1000 characters" in kept["after"]["a"]
    assert len(list(compare(one, two))) == 3


def test_a_large_value_is_kept_by_its_digest():
    made = expectation(finding(changes=(Difference(path="a", after=list(range(1_000))),)))

    assert "blake2b" in made.sessions["s"][0]


def test_differences_stand_by_session_and_total():
    old = expectation(finding("a", "denied", reason="no"), finding("b"), calls=2)
    new = expectation(finding("b"), finding("c"), calls=3)

    assert list(compare(old, new)) == [
        "session s",
        "  - call a denied (no)",
        "  + call c changed",
        "totals",
        "  - calls 2",
        "  + calls 3",
    ]


def test_the_same_finding_twice_is_a_difference():
    lines = list(compare(expectation(finding()), expectation(finding(), finding())))

    assert lines == ["session s", "  + call c changed"]


def test_the_file_is_what_json_writes(tmp_path):
    findings = [finding("a", by=("ä",)), finding("b", changes=(Difference(path="x", after=[1]),))]
    other = ReplayFinding(session='an "other"', role="user", subject="u", outcome="denied")

    expectation(*findings, other, calls=2).write(tmp_path / "e.json")

    text = (tmp_path / "e.json").read_text()
    document = json.loads(text)
    assert text == json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    assert [one["id"] for one in document["sessions"]["s"]] == ["a", "b"]


def test_many_findings_are_compared_in_no_time():
    old = expectation(*[finding(str(at)) for at in range(30_000)])
    new = expectation(*[finding(str(at)) for at in range(1, 30_001)])

    assert list(compare(old, new)) == [
        "session s",
        "  - call 0 changed",
        "  + call 30000 changed",
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "truncated"),
        ("[]", "is not an expectation"),
        ('{"toolbus": "replay expectation", "version": 2}', "update toolbus"),
        (
            json.dumps(
                {"toolbus": "replay expectation", "version": 1, "totals": {}, "sessions": {"s": 5}}
            ),
            "is not an expectation",
        ),
    ],
)
def test_what_is_no_expectation_is_refused(text, reason, tmp_path):
    (tmp_path / "e.json").write_text(text)

    with pytest.raises(UsageError, match=reason):
        read_expectation(tmp_path / "e.json")
