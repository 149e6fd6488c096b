"""Requests that arguments make, where the arguments are not known."""

import shlex

import pytest

from toolbus.policy.commands import Command, Word
from toolbus.policy.programs.command_effects import effects_of


def judge(line):
    """Read *line*; what begins with ``$`` is not known."""
    program, *words = (Word(text, known=text[0] != "$") for text in shlex.split(line))
    return effects_of(Command(program, tuple(words), source=line))


@pytest.mark.parametrize(
    "line",
    [
        "gh api graphql -f $QUERY",
        "gh api $URL -f query={viewer{login}}",
        "gh api graphql -f query={a} -f query={b}",
        "gh api graphql --input q.json",
        "gh api graphql -f 'query={a} mutation { b }'",
        "gh api /graphql x -f query={a}",
    ],
)
def test_a_request_that_may_be_no_query_changes_something(line):
    assert "write" in judge(line).effects


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("gh api repos/a/b -H $HEADER", "a header may override the method"),
        ("auth0 api $METHOD clients", "$METHOD may be an option"),
        ("kubectl get $KIND -o yaml", "with this output it prints secrets"),
        ("kubectl get secret x -o $FORMAT", "with this output it prints secrets"),
        ("kubectl get --raw $PATH", "it prints secrets"),
        ("kubectl exec web -- $COMMAND", "the command in the container may do more than read"),
        ("kubectl exec web -- ls $X", "the command in the container may do more than read"),
        ("kubectl exec web --", "it names no command to run"),
        ("docker exec web ./ls", "the command in the container may do more than read"),
    ],
)
def test_what_is_not_known_is_said(line, reason):
    assert reason in [unknown.reason for unknown in judge(line).unknown]


def test_files_of_a_container_are_not_those_of_here():
    assert judge("docker exec web cat /etc/passwd").paths == ()
    assert judge("kubectl exec web -- cat .env").paths == ()
