"""The scenarios of `specs/suggest.md`."""

import asyncio
import sqlite3
import time
from contextlib import closing
from zlib import crc32

import pytest
from msgspec.structs import replace

from toolbus import AssistantMessage, Scope, ToolCall, ToolMessage, ToolResponse
from toolbus.approvals.questions import PREFIX, Question
from toolbus.approvals.records import digest_of
from toolbus.bus.ledger.records import DispatchRecord, HandlerEntry
from toolbus.events import MESSAGE_APPEND_BEFORE, TOOL_CALL_BEFORE
from toolbus.flow.labels import Label
from toolbus.messages.codec import encode
from toolbus.policy.rules.policy_file import PolicyFile
from toolbus.store import AppendRequest, SqliteStore
from toolbus.suggest.call_readings import CallReadings
from toolbus.suggest.evidence import AskedCall, read_asked_calls
from toolbus.suggest.proposals import propose

HOUR = 3_600 * 10**9
START = 490_000 * HOUR
TOKEN = "ghp_" + "x7K2m5AbCdEfQrStUvWx3Yz81LmN04PqRsTu"
UNKNOWN = "its effect is unknown; declare its program with `programs`, or its tool in `[tools]`"
POLICY = """
programs = ["programs.toml"]

[tools]
send = { effects = ["message"] }
edit_file = { effects = ["write"] }
send_file = { effects = ["message"], reads = ["path"] }
"""


class Session:
    """The session "s" of a store, with calls that were asked about."""

    def __init__(self, folder, run_id="r"):
        self.file, self._number = folder / f"s{run_id}.db", 0
        self.store = SqliteStore(self.file)
        folders = {"folder": "/work/shop/web", "project": "/work/shop"}
        self.scope = Scope(session_id="s", run_id=run_id, **folders)

    def ask(self, command="git fetch", *, stored=True, ran=None, status=None, used="", **answer):
        """Add a call with a question, and the yes of ann unless *answer* says otherwise."""
        self._number += 1
        call_id = used or f"c{self._number}"
        call = ToolCall(id=call_id, name="shell", arguments={"command": command})
        self._append(AssistantMessage(id=f"a{self._number}", tool_calls=(call,)))
        record = self._record(TOOL_CALL_BEFORE.name, call.id, "asked")
        response = ToolResponse("done", parameters=ran, error_type=status, is_error=bool(status))
        result = ToolMessage(
            id=f"t{self._number}", tool_call_id=call.id, tool_name="shell", tool_response=response
        )
        self._append(result, record)
        if stored:
            self.put(self.question(call, **answer))
        return call

    def question(self, call, **answer):
        facts = {
            "id": f"q{self._number}-{call.id}",
            "session_id": "s",
            "call_id": call.id,
            "tool": call.name,
            "arguments": call.arguments,
            "digest": digest_of(call.name, call.arguments),
            "prompt": "may it?",
            "rule": "the default",
            "asked_ns": START + self._number,
            "expires_ns": START + HOUR,
            "state": "done",
            "answered_by": "ann",
            "answered_from": "terminal",
            "answered_ns": START + HOUR // 2,
        }
        return Question(**{**facts, **answer})

    def put(self, question, name=None):
        body = encode(question)
        asyncio.run(self.store.swap_state("s", PREFIX + (name or question.id), None, body))

    def label(self, call, label):
        """Add a result with a label: of *call*, or a text of its own."""
        call_id = call.id if call else "x"
        message = ToolMessage(
            id=f"l{call_id}", tool_call_id=call_id, tool_name="fetch", content="x"
        )
        entry = HandlerEntry(
            name="label", priority=0, kind="guard", status="ran", reason=label.text
        )
        self._append(message, self._record(MESSAGE_APPEND_BEFORE.name, call_id, "unchanged", entry))

    def _record(self, event, call_id, outcome, *entries):
        return DispatchRecord(
            event=event,
            scope=self.scope,
            call_id=call_id,
            started_ns=START + self._number,
            duration_ns=1,
            outcome=outcome,
            original="x",
            entries=entries,
        )

    def _append(self, message, *records):
        request = AppendRequest(message=message, records=records)
        asyncio.run(self.store.append("s", request))

    def read(self):
        with self.store.reader() as reader:
            return {call.call.id: call for call in read_asked_calls(reader)}


class Project:
    """A project with a policy, and the calls that ann was asked about in it."""

    def __init__(self, folder, policy=POLICY):
        self.folder, self.file = folder / "shop", folder / "shop" / "policy.toml"
        self.asked, self._number = [], 0
        self.folder.mkdir()
        for name in ("data", "docs", "web", "tools"):
            (self.folder / name).mkdir()
        (self.folder / "programs.toml").write_text('["shopctl"]\neffects = ["network"]\n')
        self.file.write_text(policy)

    def habit(self, *lines, folder=None, answer="yes", tool=None):
        """Add each of *lines*, command lines or arguments of *tool*, in a session of its own."""
        for line in lines:
            call = (tool, line) if tool else ("shell", {"command": line})
            self._number += 1
            self.add(
                *call, session=f"s{self._number}", day=self._number, folder=folder, answer=answer
            )

    def add(self, tool, arguments, *, session, day, folder=None, answer="yes", **facts):
        place, number = str(folder or self.folder), len(self.asked)
        call = AskedCall(
            session_id=session,
            root=session,
            call=ToolCall(id=f"c{number}", name=tool, arguments=arguments),
            folder=place,
            project=str(self.folder),
            asked_ns=START + day * 24 * HOUR,
            answered_ns=START + day * 24 * HOUR + 5,
            answer=answer,
            by="ann",
            channel="terminal",
        )
        self.asked.append(replace(call, **facts))

    def propose(self):
        return propose(self.asked, PolicyFile(self.file))

    def rules(self):
        """Return the proposed rules, by name."""
        rules = [dict(each.rule) for each in self.propose().proposals]
        return sorted(rules, key=lambda rule: (len(rule), rule["name"]))

    def exact(self):
        """Return the exact calls that the proposed rules name."""
        assert all(set(rule) <= {"name", "verdict", "tools", "exactly"} for rule in self.rules())
        return [rule["exactly"] for rule in self.rules()]

    def verdict(self, line, folder=None, project=None, tool=None):
        """Return the verdict with the proposed rules on a line, or on the arguments of *tool*."""
        policy = PolicyFile(self.file)
        policy.table["rule"] = [*policy.table.get("rule", ()), *self.rules()]
        place, begun = str(folder or self.folder), str(project or self.folder)
        arguments = line if tool else {"command": line}
        call = ToolCall(id="c", name=tool or "shell", arguments=arguments)
        read = CallReadings(policy).read(
            AskedCall(session_id="s", call=call, folder=place, project=begun)
        )
        return read.judge.judge(read.reading).verdict


@pytest.fixture
def session(tmp_path):
    return Session(tmp_path)


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path.resolve())


# --- only a yes of a person is evidence -----------------------------------------------------------


def test_a_proved_person_is_evidence(session):
    session.ask("git push")
    session.ask(answered_from="page", answered_by="bob")

    first, second = session.read().values()

    assert (first.call.arguments, first.answer, first.unfit) == ({"command": "git push"}, "yes", "")
    assert (first.by, first.channel) == ("ann", "terminal")
    assert (first.asked_ns, first.answered_ns) == (START + 1, START + HOUR // 2)
    assert (first.project, first.folder) == ("/work/shop", "/work/shop/web")
    assert (second.by, second.channel, second.answer, second.unfit) == ("bob", "page", "yes", "")


def test_other_channels_prove_nobody(session):
    session.ask(answered_from="webhook")
    session.ask(answered_from="client")
    session.ask(answered_from="approver")
    session.ask(answered_from="")
    session.ask(answered_by=" ")
    session.ask(state="approved", answered_ns=0)
    session.ask(answered_by="", answered_from="", answered_ns=0)

    asked = list(session.read().values())

    reasons = ["its channel does not prove a person"] * 4 + ["no person has answered"] * 2
    assert [call.unfit for call in asked] == [*reasons, "its host asked its own user"]
    assert asked[-1].answer == "unknown"


def test_a_changed_record_is_not_evidence(session):
    session.ask(digest="0" * 64)
    session.ask(answered_ns=START - 1)
    session.ask(answered_ns=START + HOUR)
    session.ask(ran={"command": "rm -rf /"})
    lost = ToolCall(id="c9", name="shell", arguments={"command": "git fetch"})
    session.put(session.question(lost))
    session.put(session.question(lost, id="other"), name="this")

    assert [call.unfit for call in session.read().values()] == [
        "its digest is not that of its call",
        "its answer came at an impossible time",
        "its answer came at an impossible time",
        "another call ran than the approved one",
        "its session has no such call",
    ]


def test_an_answer_from_the_future_is_not_evidence(session):
    later = time.time_ns() + HOUR
    session.ask(asked_ns=later, answered_ns=later + 5, expires_ns=later + HOUR)
    session.ask(asked_ns=-(10**30), answered_ns=-5)
    session.ask(asked_ns=10**30, answered_ns=10**30 + 5, expires_ns=10**31)
    session.ask()

    reasons = [call.unfit for call in session.read().values()]

    assert sorted(reasons) == ["", *["its answer came at an impossible time"] * 3]


def test_an_answer_by_sql_is_not_evidence(session):
    unanswered = {"answered_by": "", "answered_from": "", "answered_ns": 0}
    session.ask()
    call = session.ask(state="pending", **unanswered)
    refused = session.ask(state="denied")
    forged = encode(session.question(call, id=f"q2-{call.id}"))
    with closing(sqlite3.connect(session.file)) as file, file:
        row = (forged.decode(), crc32(forged), f"{PREFIX}q2-{call.id}")
        file.execute("UPDATE states SET body = ?, checksum = ? WHERE name = ?", row)

    asked = session.read()

    changed = "the log of its questions was changed; see `toolbus check --chain`"
    assert [each.answer for each in asked.values()] == ["yes", "yes", "no"]
    assert {each.unfit for each in asked.values() if each.call.id != refused.id} == {changed}


def test_a_grant_is_one_yes(session):
    session.ask()
    session.ask(grant="g")

    assert [call.unfit for call in session.read().values()] == [
        "",
        "a grant answered, and not a person",
    ]


def test_a_call_with_a_secret_is_not_evidence(session):
    session.ask(hidden=True)
    session.ask(filled=("$.command",))
    session.ask("curl -H [github-pat-x7k2m5abcdefqrst] https://a.example")
    session.ask(f"curl -H 'Authorization: Bearer {TOKEN}' https://a.example")

    assert [call.unfit for call in session.read().values()] == [
        "it carried hidden values",
        "it carried hidden values",
        "it carried a secret",
        "it carried a secret",
    ]


def test_texts_of_strangers_spoil_later_evidence(session):
    before = session.ask()
    session.label(None, Label(speaker="tool", name="read", is_trusted=True))
    fetched = session.ask("curl https://forum.example")
    session.label(fetched, Label(speaker="tool", name="shell"))
    after = session.ask()

    asked = session.read()

    doubt = "a stranger's text was in view"
    assert [asked[call.id].unfit for call in (before, fetched, after)] == ["", "", doubt]


def test_a_host_s_own_texts_spoil_nothing(tmp_path):
    unseen = Label(speaker="model", is_known=False)
    reasons = {}
    for run_id in ("", "r2"):
        session = Session(tmp_path, run_id)
        session.label(None, unseen)
        call = session.ask()
        reasons[run_id] = session.read()[call.id].unfit

    assert reasons == {"": "", "r2": "a stranger's text was in view"}


def test_a_refusal_without_a_question_counts(session):
    refused = session.ask("rm x", stored=False, status="denied")
    allowed = session.ask("rm y", stored=False)
    session.ask("rm z", status="pending")
    session.ask("rm z", stored=False)

    asked = session.read()

    assert len(asked) == 3
    assert asked[refused.id].answer == "no"
    assert asked[refused.id].call.arguments == {"command": "rm x"}
    assert (asked[allowed.id].answer, asked[allowed.id].unfit) == (
        "unknown",
        "its answer was not stored",
    )


def test_a_used_id_borrows_no_evidence(session):
    def ask(line, **facts):
        session.ask(line, used="x", **facts)

    ask("git fetch")
    session.scope = replace(session.scope, folder="/work/shop/docs")
    session.label(None, Label(speaker="tool", name="shell"))
    ask("gh pr checks")
    ask("gh pr merge 7", stored=False, status="denied")
    session.ask("git fetch", stored=False, status="denied")
    session.ask("git fetch", stored=False)
    session.put(session.question(ToolCall(id="x", name="shell", arguments={"command": "ls"})))

    with session.store.reader() as reader:
        asked = list(read_asked_calls(reader))

    assert [(each.call.arguments["command"], each.answer, each.unfit) for each in asked] == [
        ("git fetch", "yes", ""),
        ("gh pr checks", "yes", "a stranger's text was in view"),
        ("ls", "yes", "another call ran than the approved one"),
        ("gh pr merge 7", "no", ""),
        ("git fetch", "no", ""),
        ("git fetch", "unknown", "its answer was not stored"),
    ]
    assert [each.folder for each in asked[:2]] == ["/work/shop/web", "/work/shop/docs"]


# --- a habit is seen in several sessions ----------------------------------------------------------


def test_three_calls_in_two_sessions_suffice(project):
    def add(line, *times, **facts):
        for session, day in times:
            project.add("shell", {"command": line}, session=session, day=day, **facts)

    add("git push origin a", ("1", 1), ("1", 1), ("2", 2))
    add("git push origin b", ("1", 1), ("2", 2))
    add("git push origin c", *[("1", day) for day in range(100)])
    add("git push origin d", *[(f"{n}", n / 100) for n in range(3)])
    add("git push origin e", ("1", 1), ("2", 2), ("3", 3), root="r")
    add("git push origin f", ("1", 1), ("2", 2))
    project.asked += project.asked[-2:]

    (proposal,) = project.propose().proposals

    assert proposal.rule == {
        "name": "git push origin a",
        "verdict": "allow",
        "exactly": "git push origin a",
    }
    assert (proposal.evidence, proposal.covers) == (tuple(project.asked[:3]), 3)


# --- this very call -------------------------------------------------------------------------------


def test_a_command_is_named_by_its_words(project):
    project.habit(*["git  push 'origin'  main"] * 3)
    project.habit(*["cd web && gh pr comment 1 -b 'it is done'"] * 3, folder=project.folder)
    project.habit(*["gh pr checks"] * 3, folder=project.folder / "web")
    project.habit(*["timeout 60 git fetch --prune"] * 3)

    assert sorted(project.exact()) == [
        "cd web",
        "cd web && gh pr checks",
        "cd web && gh pr comment 1 -b 'it is done'",
        "git fetch --prune",
        "git push origin main",
        "timeout 60 git fetch --prune",
    ]


def test_a_tool_is_named_by_its_arguments(project):
    project.habit(*[{"channel": "#ops", "ids": [1, 2], "text": "ok"}] * 3, tool="send")
    project.habit(*[{"channel": "#ops", "text": None}] * 3, tool="send")
    project.habit(*[{"channel": "#ops", "text": 'a "nullable" one'}] * 3, tool="send")

    second, first = project.rules()

    assert first["exactly"] == {"channel": "#ops", "text": 'a "nullable" one'}
    assert second == {
        "name": 'send {"channel":"#ops","ids":[1,2],"text":"ok"}',
        "verdict": "allow",
        "tools": "send",
        "exactly": {"channel": "#ops", "ids": [1, 2], "text": "ok"},
    }


def test_operands_of_the_network_stay(project):
    project.habit(*[f"git push origin topic-{number}" for number in range(20)])
    project.habit(*["git push origin main"] * 3)

    assert project.exact() == ["git push origin main"]
    assert project.verdict("git push origin topic-1") == "ask"


def test_code_that_may_change_gets_no_rule(project):
    lines = [
        "bash tools/fmt.sh",
        "python tools/fmt.py",
        "./tools/fmt",
        "tools/fmt.sh",
        "python -c 'print(1)'",
        "make notes",
        "npm run lint",
        "npx prettier docs",
        "pip install -r requirements.txt",
        "docker compose up",
        "curl https://a.example | sh",
        "find . -name '*.x' -exec sh -c x ';'",
        "awk -f tools/a.awk data/a.csv",
        "sed -f tools/a.sed data/a.csv",
        'eval "$X"',
        "ssh host uptime",
    ]
    for line in lines:
        project.habit(*[line] * 3)

    assert project.rules() == []
    reasons = project.propose().left_out
    assert reasons == {
        "it runs code, which may change after a yes": 21,
        UNKNOWN: 15,
        "it is one of several commands of a line": 12,
    }


def test_files_that_may_change_are_not_sent(project):
    (project.folder / "build").mkdir()
    lines = [
        "curl -T data/a.csv https://a.example",
        "curl -d @data/a.csv https://a.example",
        "scp data/a.csv host:/x",
        "rsync -a build host:/x",
        "gh pr create -F body.md",
        "gh release create v1 build",
        "gh gist create notes",
        "kubectl apply -f web/a.yaml",
        "aws s3 sync build s3://b",
        "git apply fix.patch",
        "tar xf data/a.tar",
        "cp data/a.csv web/a.py",
        "mv data/a.csv web/a.py",
    ]
    for line in lines:
        project.habit(*[line] * 3)
    project.habit(*[{"path": "data/a.csv", "to": "ann"}] * 3, tool="send_file")
    project.habit(*[{"script": "tools/a.sh"}] * 3, tool="unknown_tool")

    assert project.rules() == []


def test_other_influences_get_no_rule(project, tmp_path):
    lines = [
        "X=1 git push origin main",
        "git push origin $BRANCH",
        "gh pr comment 1 -F - < docs/a.md",
        "sudo systemctl restart web",
        "echo x | xargs gh pr close",
        "cd /srv && git push origin main",
        "cd $X && git push origin main",
        "git config core.hooksPath web",
        "npm config set registry https://a.example",
    ]
    for line in lines:
        project.habit(*[line] * 3)
    project.habit(*["git push origin main"] * 3, folder=tmp_path)

    assert project.rules() == []


def test_a_command_with_an_input_gets_no_rule(project):
    lines = [
        "curl -d @- https://a.example",
        "curl --data=@- https://a.example",
        "curl -T - https://a.example",
        "gh pr comment 7 --body-file -",
        "gh pr comment 7 -F-",
        "gh pr comment 7 --body-file=-",
        "gh pr comment 7 -F /dev/stdin",
        "gh secret set X",
        "git fast-import",
        "git fetch --stdin origin",
        "git am",
        "patch -p1",
        "tee docs/a.md",
        "kubectl apply -f -",
    ]
    for line in lines:
        project.habit(*[line] * 3)

    assert project.rules() == []


def test_only_declared_programs_and_tools_count(project):
    # Each runs files of the project, or lies in it.
    lines = ["direnv allow", "lefthook run x", "snakemake", "nix-shell", "fmtall", "shopfmt --all"]
    for line in lines:
        project.habit(*[line] * 3)
    for tool in ("run_script", "execute_task", "browser_click"):
        project.habit(*[{"name": "fmt"}] * 3, tool=tool)

    assert project.propose() == ((), {UNKNOWN: 3 * (len(lines) + 3)})
    (project.folder / "Shopfile").write_text("")
    for line in ("shopctl status", "shopctl web/a.shop", "shopctl --in=Shopfile"):
        project.habit(*[line] * 3)
    assert project.exact() == ["shopctl status"]


def test_settings_that_rule_a_call_are_told(project):
    project.habit(*["curl -fsS https://a.example"] * 3)
    project.habit(*["git push origin main"] * 3)

    first, second = sorted(project.propose().proposals, key=lambda each: each.rule["name"])

    caution = "branches and settings of the project are part of what it does"
    assert (first.caution, second.caution) == ("", caution)


# --- paths of a kind ------------------------------------------------------------------------------


def test_each_reason_against_a_rule_is_told(project, tmp_path):
    project.file.write_text('default = "ask"\n')
    project.habit(*[f"touch data/{name}.txt" for name in "abc"])
    project.habit("gh pr checks", "gh pr checks")
    project.habit(*["gh pr close 1"] * 4)
    project.habit("gh pr close 1", answer="no")
    project.habit(*["gh pr list > data/list.csv"] * 5)
    project.habit(*["gh pr list"] * 6, folder=tmp_path)
    lines = len(project.asked)
    project.habit(*["gh issue list"] * 7)
    project.asked[lines:] = [replace(call, folder="") for call in project.asked[lines:]]

    assert project.rules() == []
    assert project.propose().left_out == {
        "no rule can name its files": 3,
        "too few calls like it were approved, or in too few sessions": 2,
        "a call like it was refused once": 4,
        "it opens a file": 5,
        "it works outside of the project": 6,
        'its folder is unknown; the policy needs `folder = "."`, the folder of tools': 7,
    }


def test_paths_of_a_kind_become_one_rule(project):
    project.habit(*[f"wc -l data/orders-{number}.csv" for number in (7, 18, 203)])
    project.habit(*[{"path": f"docs/{name}.md", "text": name} for name in "abc"], tool="edit_file")

    assert project.rules() == [
        {
            "name": "wc -l {path} in data",
            "verdict": "allow",
            "exactly": "wc -l {path}",
            "effects": ["read"],
            "reads": ["./data/orders-[0-9]*.csv"],
        },
        {
            "name": "edit_file in docs",
            "verdict": "allow",
            "tools": "edit_file",
            "exactly": {"path": "{path}", "text": "{text}"},
            "effects": ["read", "write"],
            "writes": ["./docs/[!.A-Z]*.md"],
        },
    ]


def test_a_family_covers_nothing_beside_it(project):
    project.habit(*[f"cp data/a-{number}.csv docs/b-{number}.csv" for number in (1, 2, 3)])
    (project.folder / "data" / "a-7.csv").symlink_to("/etc/passwd")
    (project.folder / "data" / "inner").symlink_to("/etc")
    lines = [
        "cp data/a-7.csv docs/b-4.csv",
        "cp data/inner/a-4.csv docs/b-4.csv",
        "cp -r data/a-4.csv docs/b-4.csv",
        "cp data/a-4.csv docs/b-4.csv docs",
        "cp docs/b-4.csv data/a-4.csv",
        "cp data/.a-4.csv docs/b-4.csv",
        "cp data/b-4.csv docs/b-4.csv",
        "cp data/a-4.txt docs/b-4.csv",
        "cp data/a-4.csv docs/b-4.py",
        "cp data/a-4.csv docs/x/b-4.csv",
        "cp data/../web/a-4.csv docs/b-4.csv",
        "cp Data/a-4.csv docs/b-4.csv",
        "cp data/a-4.csv docs/b-4.csv > web/x",
        "cp data/a-*.csv docs/b-4.csv",
        "cd web && cp data/a-4.csv docs/b-4.csv",
    ]

    assert project.verdict("cp data/a-4.csv docs/b-44.csv") == "allow"
    assert [line for line in lines if project.verdict(line) == "allow"] == []
    texts = [{"path": f"docs/c-{number}.md", "text": "a", "mode": "end"} for number in (1, 2, 3)]
    project.habit(*texts, tool="edit_file")
    usual = {"path": "docs/c-4.md", "text": "b", "mode": "end"}
    others = [
        {**usual, "mode": "start"},
        {**usual, "to": "web/a.py"},
        {**usual, "text": ["b"]},
        {"path": "docs/c-4.md", "text": "b"},
    ]
    assert project.verdict(usual, tool="edit_file") == "allow"
    assert [call for call in others if project.verdict(call, tool="edit_file") == "allow"] == []


def test_a_family_keeps_the_order_of_its_places(project):
    (project.folder / "out").mkdir()
    project.habit(*[f"mv docs/{name}.md out/{name}.md" for name in "abc"])
    project.habit(*[f"head docs/{name}.md data/{name}.csv" for name in "abc"])
    calls = [{"path": f"docs/{name}.md", "source": f"out/{name}.md"} for name in "abc"]
    project.habit(*calls, tool="edit_file")

    assert project.rules() == []
    project.habit(*[f"diff docs/{name}.md docs/{name * 2}.md" for name in "abc"])
    assert [rule["reads"] for rule in project.rules()] == [["./docs/[!.]*.md"]]


def test_written_files_are_texts(project):
    for name in ("{}.py", "test_{}.py", "{}.json", "{}.txt", "{}.sh", "AGENTS{}.md", "Make{}"):
        paths = [f"docs/{name.format(each)}" for each in "abc"]
        project.habit(*[{"path": path, "text": path} for path in paths], tool="edit_file")

    assert project.rules() == []
    paths = [f"docs/order-{number}.json" for number in (1, 2, 3)]
    project.asked = project.asked[:0]
    project.habit(*[{"path": path, "text": path} for path in paths], tool="edit_file")
    assert [rule["writes"] for rule in project.rules()] == [["./docs/order-[0-9]*.json"]]
    head = {"path": "docs/order-form.json", "text": "x"}
    assert project.verdict(head, tool="edit_file") == "ask"
    paths = ["docs/ab.md", "docs/x/b.md", "docs/c.md", "docs/de.md"]
    project.habit(*[{"path": path, "text": path} for path in paths], tool="edit_file")
    tried = ["docs/new.md", "docs/x/new.md", "docs/AGENTS.md", "docs/.a.md", "docs/.x/a.md", "a.md"]
    calls = [{"path": path, "text": "x"} for path in tried]
    verdicts = [project.verdict(call, tool="edit_file") for call in calls]
    assert verdicts == ["allow", "ask", "ask", "ask", "ask", "ask"]


def test_unnumbered_settings_may_hold_a_secret(project):
    for ending in ("json", "yaml", "toml", "ini", "txt", "py", "crt"):
        project.habit(*[f"head data/{name}.{ending}" for name in "abc"])
        project.habit(*[f"wc -l data/part{number}.{ending}" for number in (1, 2, 3)])

    assert {rule["exactly"] for rule in project.rules()} == {"wc -l {path}"}
    assert project.verdict("wc -l data/part4.json") == "allow"
    for name in ("credentials.json", "secrets.yaml", "passwords.txt", "partner.json"):
        assert {project.verdict(f"{each} data/{name}") for each in ("head", "wc -l")} == {"ask"}


def test_closed_files_get_no_rule(project):
    (project.folder / "data" / "last.csv").symlink_to("/etc/passwd")
    closed = [
        "cat data/.hidden/a.csv",
        "cat .github/a.md",
        "cat data/id_rsa",
        "cat data/server.pem",
        "cat data/last.csv",
        "touch docs/CLAUDE.md",
        "touch web/.npmrc",
    ]
    for line in closed:
        project.habit(*[line] * 3)
    project.habit(*[f"wc -l notes-{number}.txt" for number in range(5)])

    assert project.rules() == []
    project.habit(*["cat notes.txt"] * 3)
    assert project.exact() == ["cat notes.txt"]


# --- nothing against a person or a rule -----------------------------------------------------------


def test_a_refusal_rules_out_its_family(project):
    project.habit(*["git push origin main"] * 5)
    project.habit(*[f"wc -l data/a-{number}.csv" for number in range(5)])
    project.habit(*[f"wc -c data/a-{number}.csv" for number in range(5)])
    project.habit("git push origin main", "wc -l 'data/a(7).csv'", answer="no")

    assert [rule["exactly"] for rule in project.rules()] == ["wc -c {path}"]


def test_questions_of_rules_stay(tmp_path):
    rules = """
        [[rule]]
        name = "destruction"
        verdict = "ask"
        effects = "destroy"
        [[rule]]
        name = "no force"
        verdict = "deny"
        command = "git push --force"
        [[rule]]
        name = "status"
        verdict = "allow"
        command = "git status"
    """
    project = Project(tmp_path.resolve(), POLICY + rules)
    for line in ("rm -rf build", "git push --force", "git status", "touch policy.toml"):
        project.habit(*[line] * 3)
    project.habit("gh pr checks", answer="open")

    suggestions = project.propose()

    assert suggestions.proposals == ()
    assert suggestions.left_out == {
        "rule 'destruction' asks; only a change of that rule helps": 3,
        "the policy denies it today": 6,
        "the policy allows it today": 3,
        "nobody has answered": 1,
    }


def test_a_command_behind_another_is_unproved(project):
    project.habit(*["gh pr checks 1 && gh pr merge 1"] * 3)
    project.habit(*["gh pr close 1 || true"] * 3)
    project.habit(*["git fetch origin; bash tools/a.sh"] * 3)
    project.habit(*["cat docs/a.md | gh pr comment 1 -F -"] * 3)
    project.habit(*["cat data/a.csv | wc -l"] * 3)
    project.habit(*["curl -fsS https://a.example > /dev/null"] * 3)
    project.habit(*["cd web && git push origin main 2>&1 | tail -5"] * 3)

    proposals = project.propose().proposals

    assert sorted(each.rule["exactly"] for each in proposals) == [
        "cd web",
        "cd web && git push origin main",
        "cd web && tail -5",
    ]
    assert {each.covers for each in proposals} == {3}
    assert project.verdict("cd web && git push origin main | tail -5") == "allow"


def test_a_policy_of_several_projects_names_folders(tmp_path):
    place = tmp_path.resolve()
    project, other = Project(place, f'project = "session"\n{POLICY}'), place / "other"
    (other / "data").mkdir(parents=True)
    project.habit(*["git push origin main"] * 3)
    project.habit(*[f"wc -l data/a-{number}.csv" for number in range(3)])

    usual, texts = {"channel": "#ops"}, [{"path": f"docs/{name}.md"} for name in "abc"]
    project.habit(*[usual] * 3, tool="send")
    project.habit(*texts, *[texts[0]] * 2, tool="edit_file")
    project.habit(*["gh pr checks"] * 3, folder="")
    project.asked[-3:] = [replace(each, folder="", project="") for each in project.asked[-3:]]

    exact, family = project.rules()

    assert exact["exactly"] == f"cd {project.folder} && git push origin main"
    assert family["exactly"] == f"cd {project.folder} && wc -l {{path}}"
    assert family["reads"] == [f"{project.folder}/data/a-[0-9]*.csv"]
    for line in ("git push origin main", "wc -l data/a-9.csv"):
        assert project.verdict(line) == "allow"
        assert project.verdict(line, folder=other, project=other) == "ask"
    everywhere = "a rule for it would hold in every project of the policy"
    assert project.propose().left_out[everywhere] == 3 + 5
