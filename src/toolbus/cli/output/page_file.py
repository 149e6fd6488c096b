"""Sessions as one HTML file that needs no server and makes no request."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from toolbus.history.session_figures import compare_figures
from toolbus.ui.rendering import find_template

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import BinaryIO

    from toolbus.history.session_differences import SessionComparison
    from toolbus.history.timeline import Timeline
    from toolbus.store.store_reader import SessionRow


def write_session(
    stream: BinaryIO,
    session: SessionRow,
    parts: Iterable[Timeline],
    hidden: Mapping[str, int] | None,
) -> None:
    """Write the timeline of *session*, whose *parts* follow each other, as one page of HTML.

    The page says at its top what is *hidden* in it, the number of values by kind, or for None
    that it is as stored. At most one part is in memory at a time.
    """
    _write(stream, "session.html", hidden, session=session, parts=parts)


def write_comparison(
    stream: BinaryIO, comparison: SessionComparison, hidden: Mapping[str, int] | None
) -> None:
    """Write two sessions side by side as `write_session` does."""
    figures = compare_figures(comparison.first, comparison.second)
    values = {"comparison": comparison, "figures": figures, "pairs": comparison.pairs}
    _write(stream, "diff.html", hidden, **values)


def describe_hidden(hidden: Mapping[str, int]) -> str:
    """Return the number of hidden values by kind, in words."""
    kinds = [f"{count:,} {kind}" for kind, count in hidden.items()]
    return f"hidden values: {', '.join(kinds) or 'none'}"


def _write(
    stream: BinaryIO, template: str, hidden: Mapping[str, int] | None, **values: Any
) -> None:
    # In pieces, since a value may be a long iterator.
    chunks = find_template(template).generate(
        hidden=None if hidden is None else describe_hidden(hidden),
        policy=_policy(),
        nonce="",
        live=False,
        **values,
    )
    stream.writelines(chunk.encode() for chunk in chunks)


def _policy() -> str:
    """Return the content security policy of the file: its own style and script, and no request."""
    texts = [find_template(name).render().encode() for name in ("style.css", "script.js")]
    hashes = [b64encode(sha256(text).digest()).decode() for text in texts]
    sources = f"style-src 'sha256-{hashes[0]}'; script-src 'sha256-{hashes[1]}'"
    return f"default-src 'none'; {sources}; base-uri 'none'; form-action 'none'"
