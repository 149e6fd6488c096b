"""The questions on the page as a person reads them, and answers as a browser posts them."""

from html.parser import HTMLParser
from typing import NamedTuple
from urllib.parse import urlsplit

VOID = {"br", "input", "meta", "link", "img", "hr"}


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
        if tag == "article":
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
    """Post *decision* as the script of the page does; return the reply."""
    form = question.fields | {"decision": decision, "code": ui.code if code is None else code}
    reply = ui.post("/questions/answer", form | fields, accept="text/plain")
    return Answered(reply.status, reply.text)


def press(ui, question, decision, code=None, **fields):
    """Press a button as a browser without scripts does, and follow the redirect."""
    form = question.fields | {"decision": decision, "code": ui.code if code is None else code}
    reply = ui.post("/questions/answer", form | fields)
    if reply.status != 303:
        return Answered(reply.status, reply.text)
    location = reply.headers["location"]
    assert urlsplit(location).path == "/questions", location
    return Answered(303, ui.get(location).text, location)
