"""The questions on the page as a person reads them, and answers as a browser posts them."""

import asyncio
import os
import re
import time
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from html import unescape
from html.parser import HTMLParser
from typing import NamedTuple

from toolbus import Agent, Ask, AssistantMessage, ToolCall, tool
from toolbus.approvals import StoredApprovals
from toolbus.approvals.questions import PREFIX, Question
from toolbus.approvals.records import digest_of, questions_of
from toolbus.events import TOOL_CALL_BEFORE
from toolbus.messages.codec import encode
from toolbus.models.scripted import ScriptedModel
from toolbus.store import open_store

SECOND, HOUR = 10**9, 3_600 * 10**9
VOID = {"br", "input", "meta", "link", "img", "hr"}


def now():
    """Return the time of the current test, the same at each call."""
    return time_of(os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0])


@lru_cache(maxsize=1)
def time_of(_test):
    return time.time_ns()


class QuestionOnPage:
    """A question: its *heading*, *rows* of our words, *quoted* texts and form *fields*."""

    def __init__(self, element):
        self.element, self.heading, self.text = element, "", ""
        self.rows, self.quoted, self.links = [], [], []
        self.fields, self.buttons = {}, []

    def __repr__(self):
        return f"{self.heading}: {self.text}"


class QuestionParser(HTMLParser):
    """Reads the articles of the questions; each element must be closed in order."""

    def __init__(self, html):
        super().__init__()
        self.questions, self.tags, self.open = [], [], []
        self.within = None
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        facts = dict(attrs)
        self.tags.append(tag)
        if tag == "article" and "question" in facts["class"].split():
            self.within = QuestionOnPage(facts["id"])
            self.questions.append(self.within)
        if tag not in VOID:
            self.open.append(tag)
        if self.within is None:
            return
        if tag == "pre":
            self.within.quoted.append("")
        elif tag == "p":
            self.within.rows.append("")
        elif tag == "a":
            self.within.links.append(facts["href"])
        elif tag in {"input", "textarea"}:
            self.within.fields[facts["name"]] = facts.get("value", "")
        elif tag == "button":
            self.within.buttons.append((facts.get("value", ""), "disabled" in facts))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes no such element"
        if tag == "article":
            self.within = None

    def handle_data(self, data):
        if self.within is None:
            return
        self.within.text += f"{data} "
        for tag in reversed(self.open):
            if tag == "code":
                pass  # Also within a row it is apart.
            elif tag == "pre":
                self.within.quoted[-1] += data
            elif tag == "p":
                self.within.rows[-1] += data
            elif tag in {"h2", "h3"}:
                self.within.heading += data
            else:
                continue
            break


class Answered(NamedTuple):
    """The result of a posted answer: its *status*, and the *text* of the page after it."""

    status: int
    text: str
    location: str = ""


def questions_on(ui, path="/questions"):
    """Return the questions on a page, in its order."""
    answer = ui.get(path)
    assert answer.status == 200, answer.text
    return QuestionParser(answer.text).questions


def send_answer(ui, question, decision, code=None, **fields):
    """Answer as the script of the page does; return the status and the words of the result."""
    result = press(ui, question, decision, code, **fields)
    words = re.search('role="status">(.*?)</p>', result.text, re.DOTALL)[1]
    return result._replace(text=unescape(words))


def press(ui, question, decision, code=None, **fields):
    """Press a button as a browser does, and follow the redirect."""
    form = question.fields | {"decision": decision, "code": ui.code if code is None else code}
    reply = ui.post("/questions/answer", form | fields)
    if reply.status != 303:
        return Answered(reply.status, reply.text)
    location = reply.headers["location"]
    result = ui.get(location)
    return Answered(result.status, result.text, location)


def in_a_loop(function):
    """Return the result of an async function, also beside the event loop of a browser's driver."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(lambda: asyncio.run(function())).result()


def question(name, **fields):
    """Return a pending question with some *fields*."""
    tool_name, arguments = fields.get("tool", "pay"), fields.get("arguments", {"amount": 1})
    values = {
        "id": name,
        "session_id": "s",
        "call_id": f"call-{name}",
        "tool": tool_name,
        "arguments": arguments,
        "digest": digest_of(tool_name, arguments),
        "prompt": "pay it?",
        "asked_ns": now(),
        "expires_ns": now() + HOUR,
    }
    return Question(**(values | fields))


def write(path, *questions, **bodies):
    """Put *questions* into the store, in place of those with the same ids, and raw *bodies*."""

    async def run():
        async with open_store(path) as store:
            stored = [(each.session_id, PREFIX + each.id, encode(each)) for each in questions]
            stored += [("s", PREFIX + name, body) for name, body in bodies.items()]
            for session, name, body in stored:
                await store.swap_state(session, name, await store.read_state(session, name), body)

    in_a_loop(run)


def read(path, name="1", session="s"):
    """Return the stored question *name*."""

    async def run():
        async with open_store(path) as store:
            return {each.id: each for each in await questions_of(store, session)}[name]

    return in_a_loop(run)


def waiting_agent(store, amounts, paid):
    """Return an agent that pays each of *amounts*, one after the other, with a person's yes."""

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    calls = [
        AssistantMessage(
            content="", tool_calls=(ToolCall(id=f"c{n}", name="pay", arguments={"amount": n}),)
        )
        for n in amounts
    ]
    model = ScriptedModel([*calls, "ready"])
    approver = StoredApprovals(wait=30)
    agent = Agent(model, tools=[pay], store=store, session_id="s", approver=approver)
    agent.guard(TOOL_CALL_BEFORE, lambda ctx: Ask("pay it?"), name="till")
    return agent
