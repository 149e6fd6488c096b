"""Stores with sessions to look at: invented ones, as a team's agents leave them, and hostile ones.

The handlers are real, the texts of models and the results of tools are prepared.
"""

import asyncio
import re
import threading

from toolbus import Agent, AgentComponent, Ask, AssistantMessage, Deny, ToolCall, on, tool
from toolbus.approvals import StoredApprovals, answer
from toolbus.approvals.records import questions_of
from toolbus.events import MESSAGE_PERSIST_BEFORE, TOOL_CALL_BEFORE
from toolbus.models.scripted import ScriptedModel
from toolbus.policy import Policy
from toolbus.redaction.redact_secrets import RedactSecrets
from toolbus.store import open_store
from toolbus.truncation.truncate_output import TruncateOutput

PASSWORD = "hunter" + "2horse9battery"
TOKEN = "ghp_" + "x7K2m5AbCdEfQrStUvWx3Yz81LmN04PqRsTu"
RULES = [
    {
        "name": "work is kept",
        "verdict": "deny",
        "command": ["git reset --hard", "git clean -f", "git clean -fdx"],
        "reason": "it deletes work that git cannot restore",
        "hint": "leave the files of others alone and change only yours",
    },
    {
        "name": "a push is published",
        "verdict": "ask",
        "command": ["git push", "git push --force-with-lease"],
        "reason": "others see it at once",
    },
]
LOG = "\n".join(
    f"{hour:02}:{minute:02} INFO  sent batch {hour * 60 + minute} of 2,000 rows"
    for hour in range(2, 5)
    for minute in range(0, 60, 2)
)
FILES = {
    "logs/nightly.log": LOG.replace(
        "02:34 INFO  sent batch 154 of 2,000 rows",
        f"02:34 WARN  lost postgres://ferry:{PASSWORD}@db.ferry.example/rows, trying again\n"
        "02:34 ERROR refused a batch of 6,200 rows; the limit is 2,000",
    ),
    "config/nightly.env": f"IMPORT_LIMIT=2000\nGITHUB_TOKEN={TOKEN}\nREGION=eu-west-1\n",
    "scripts/nightly.sh": "set -eu\n. config/nightly.env\nexec import-rows --batch 6200\n",
}
RESULTS = {
    "git log": "8f2c1d7 ann@ferry.example Raise the batch\n41aa0be bob@ferry.example Import rows",
    "pytest": "FAILED tests/test_batches.py::test_limit - assert 6200 <= 2000\n1 failed, 41 passed",
    "git commit": "[main 5b7e0c3] Send batches of 2,000 rows\n 1 file changed",
    "git push": "To git.ferry.example:nightly.git\n + 8f2c1d7...5b7e0c3 main -> main",
}


class GitManners(AgentComponent):
    """Rewrites a forced push into one that overwrites nobody's commits."""

    @on(TOOL_CALL_BEFORE, tools="shell")
    def rewrite(self, ctx):
        command = ctx.value.arguments["command"]
        better = re.sub(r"--force(?!\S)", "--force-with-lease", command)
        return ctx.value.merge_arguments({"command": better}) if better != command else None


class ForgetAddresses(AgentComponent):
    """Leaves mail addresses out of what is stored; the model reads them."""

    @on(MESSAGE_PERSIST_BEFORE, roles=["tool"])
    def forget(self, ctx):
        return ctx.value.map_text(lambda text: re.sub(r"\S+@\S+", "[address]", text))


@tool
async def read_file(path: str) -> str:
    """Return the text of a file."""
    await asyncio.sleep(0.02)
    return FILES[path]


@tool
async def write_file(path: str, content: str) -> str:
    """Write a file."""
    await asyncio.sleep(0.01)
    return f"{len(content)} characters written to {path}"


@tool
async def shell(command: str) -> str:
    """Run a command."""
    await asyncio.sleep(0.25 if "pytest" in command else 0.05)
    for words, result in RESULTS.items():
        if words in command:
            if "FAILED" in result:
                raise RuntimeError(result)
            return result
    return ""


def says(text, *calls, seconds=0.1, tokens=(1_000, 60)):
    """Return an answer of the model that takes some time: a text, and calls by tool name."""
    message = AssistantMessage(
        content=text,
        tool_calls=tuple(ToolCall(name=name, arguments=arguments) for name, arguments in calls),
        usage={"input_tokens": tokens[0], "output_tokens": tokens[1]},
        stop_reason="tool_calls" if calls else "stop",
    )

    async def complete(request):
        await asyncio.sleep(seconds)
        return message

    return complete


def run(command):
    return "shell", {"command": command}


REPAIR = [
    says(
        "I look at the log, the settings and what changed lately.",
        ("read_file", {"path": "logs/nightly.log"}),
        ("read_file", {"path": "config/nightly.env"}),
        run("git log --oneline -2"),
        seconds=0.31,
        tokens=(1_204, 131),
    ),
    says(
        "The last commit raised the batch above the limit. I want a clean start.",
        run("git reset --hard && git clean -fdx"),
        seconds=0.22,
        tokens=(4_871, 74),
    ),
    says(
        "Then I change only the script, and run the tests.",
        (
            "write_file",
            {
                "path": "scripts/nightly.sh",
                "content": "set -eu\n. config/nightly.env\nexec import-rows --batch 2000\n",
            },
        ),
        run("pytest -q"),
        ("search_web", {"query": "import-rows batch limit"}),
        seconds=0.4,
        tokens=(5_020, 188),
    ),
    says(
        "The tests read the old number. I commit and push.",
        run("git commit -qam 'Send batches of 2,000 rows'"),
        run("git push --force origin main"),
        seconds=0.28,
        tokens=(5_633, 97),
    ),
    says("Fixed: batches had 6,200 rows, the server takes 2,000.", seconds=0.2, tokens=(5_802, 41)),
]


def make_agent(store, session, answers, *, agent="coder", components=None, **options):
    """Return an agent with the handlers of the team."""
    handlers = [GitManners(), Policy(default="allow", rule=RULES), RedactSecrets()]
    handlers += [TruncateOutput(characters=1_200), ForgetAddresses()]
    return Agent(
        ScriptedModel(answers),
        tools=[read_file, write_file, shell],
        components=handlers if components is None else components,
        store=store,
        session_id=session,
        agent_id=agent,
        **options,
    )


async def answer_next(store, session, *, approve=True):
    """Answer the next question of a session, half a second after it was asked."""
    while not (questions := await questions_of(store, session)):
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.5)
    question = questions[0]
    await answer(store, question.id, question.digest, approve=approve, by="ann", channel="chat")


async def fill_team_store(path):
    """Fill a store with a week of a team: one session has it all, one waits for a person."""
    store = open_store(path)
    approvals = StoredApprovals(store=store, wait=30)
    agent = make_agent(
        store,
        "nightly-import",
        REPAIR,
        approver=approvals,
        keep_originals=True,
        system="You repair the nightly import. Be brief.",
    )
    async with agent:
        await asyncio.gather(
            answer_next(store, "nightly-import"),
            agent.run("The nightly import fails since Tuesday. Find out why, fix it and push."),
        )
    await fill_second_attempt(store)
    await fill_waiting_session(store)
    await fill_small_sessions(store)
    await store.close()


async def fill_second_attempt(store):
    """Add a session with the same task that went another way: without the denied clean start."""
    answers = [REPAIR[0], REPAIR[2], says("The tests fail, so I stop here.", tokens=(5_310, 22))]
    agent = make_agent(store, "nightly-import-again", answers)
    async with agent:
        await agent.run("The nightly import fails since Tuesday. Find out why, fix it and push.")


async def fill_waiting_session(store):
    """Add a session that waits: its push needs a yes, and nobody has answered."""
    answers = [says("The notes are ready. I publish them.", run("git push --force origin notes"))]
    approvals = StoredApprovals(store=store)
    agent = make_agent(store, "release-notes", answers, agent="writer", approver=approvals)
    async with agent:
        result = await agent.run("Write the release notes of 0.7 and publish them.")
    assert result.status == "pending", result


async def fill_waiting_store(path):
    """Fill a store with one session, which waits."""
    store = open_store(path)
    await fill_waiting_session(store)
    await store.close()


async def fill_small_sessions(store):
    """Add sessions of other days, for lists and figures."""
    for number, (agent, command) in enumerate(
        [
            ("reviewer", "git log --oneline -2"),
            ("coder", "pytest -q tests/test_rows.py"),
            ("reviewer", "git log --oneline -20"),
            ("writer", "git reset --hard HEAD~1"),
            ("coder", "pytest -q"),
        ],
        1,
    ):
        answers = [says("", run(command), seconds=0.03), says("Done.", seconds=0.03)]
        made = make_agent(store, f"task-{number:02}", answers, agent=agent)
        async with made:
            await made.run(f"Look at merge request {number}.")


HOSTILE = [
    "<script>document.title = 'owned'</script><img src=x onerror=\"document.title='owned'\">",
    "</pre></script></style><!--<h1>not ours</h1>",
    "{{ 7 * 7 }} {% raw %} {# a comment #} ${7 * 7} <%= 7 * 7 %>",
    "\u202eevil\u202c \u2066safe\u2069 \u200bnothing\x1b[31m red \x07",
    "javascript:document.title='owned'",
]
ENDLESS = "x" * 100_000


def judge(ctx):
    """Deny or ask with hostile reasons, as the call demands."""
    match ctx.value.arguments.get("do"):
        case "deny":
            return Deny("".join(HOSTILE), detail=HOSTILE[0])
        case "ask":
            return Ask("".join(HOSTILE))
    return None


@tool
def act(do: str, text: str, more: dict[str, str]) -> str:
    """Act."""
    if do == "fail":
        raise RuntimeError(text)
    return text


async def fill_hostile_store(path):
    """Fill a store in which each field is hostile that a model, a tool or a name can fill."""
    store = open_store(path)
    for number, text in enumerate([*HOSTILE, ENDLESS]):
        arguments = {"text": text, "more": {text[:200]: text}}
        calls = tuple(
            ToolCall(id=f"{each}/{text[:60]}", name="act", arguments=arguments | {"do": each})
            for each in ("run", "deny", "fail", "ask")
        )
        calls += (ToolCall(id=f"unknown/{text[:60]}", name=text[:64], arguments=arguments),)
        usage = {text[:40]: text[:40]}
        message = AssistantMessage(id=text[:100], content=text, tool_calls=calls, usage=usage)

        agent = Agent(
            ScriptedModel([message, text]),
            tools=[act],
            components=[RedactSecrets()],
            store=store,
            session_id=f"{number} {text[:80]}",
            agent_id=f"{text[:60]}",
            system=text,
            approver=StoredApprovals(store=store),
        )
        agent.guard(TOOL_CALL_BEFORE, judge, name=HOSTILE[0])
        async with agent:
            await agent.run(text)
    await store.close()


async def fill_long_store(path, messages=450):
    """Fill a store with a session of more messages than one screen shows."""
    store = open_store(path)
    call = "act", {"do": "run", "text": "One more line.", "more": {}}
    answers = [says("", call, seconds=0) for _ in range(messages // 2)]
    model = ScriptedModel([*answers, "Done."])
    agent = Agent(model, tools=[act], store=store, session_id="long", max_turns=messages)
    async with agent:
        await agent.run("Look at each commit.")
    await store.close()


def in_a_thread(function, *arguments):
    """Run an async function beside the event loop of the browser's driver, and wait for it."""
    failures = []

    def work():
        try:
            asyncio.run(function(*arguments))
        except BaseException as failure:  # noqa: BLE001 - raised again below
            failures.append(failure)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
