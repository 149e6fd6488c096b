"""Values for shapes that secrets stand in, and what is left of a text with one."""

import asyncio
import random
import string
import uuid
from functools import cache

from toolbus.messages import ToolResponse
from toolbus.messages.record_walker import rewrite_response
from toolbus.redaction.secrets.engine import engine_for
from toolbus.redaction.secrets.redactor import Redactor
from toolbus.redaction.secrets.rules import choose

LETTERS = string.ascii_letters + string.digits
WORDS = ("Winter", "Falcon", "Bridge", "Copper", "Meadow", "Saturn", "Velvet", "Walnut")


def chosen(source):
    """Return a password as people choose one."""
    return f"{source.choice(WORDS)}{source.randint(100, 9999)}{source.choice('!?#*+')}"


def plain(source):
    """Return letters and digits."""
    return "".join(source.choices(LETTERS, k=21)) + f"{source.randint(10, 99)}q"


def signs(source):
    """Return letters, digits and signs that stand in no shell's way."""
    return f"{''.join(source.choices(LETTERS, k=12))}{source.randint(10, 99)}+/@%^~_x"


def hexadecimal(source):
    """Return 32 hexadecimal digits."""
    return f"{source.getrandbits(128):032x}"


def identifier(source):
    """Return a UUID."""
    return str(uuid.UUID(int=source.getrandbits(128), version=4))


KINDS = {"c": chosen, "p": plain, "s": signs, "x": hexadecimal, "u": identifier}


def values(kinds, count=4):
    """Return *count* values of each of the *kinds*, the same ones in each run."""
    return [
        KINDS[kind](random.Random(f"{kind}{number}")) for kind in kinds for number in range(count)
    ]


def surviving(shape, kinds):
    """Return the values of *kinds* that are still there when a text of *shape* was cleaned."""
    return [value for value in values(kinds) if value in cleaned(shape.replace("«»", value))]


def cleaned(text):
    """Return *text* as a model reads it in a session of its own."""
    return asyncio.run(redactor().clean(text, ToolResponse.from_text(text), rewrite_response)).text


@cache
def redactor():
    """Return a redactor with all rules."""
    return Redactor(engine_for(choose((), (), {})), chars=10_000_000, seconds=600.0)
