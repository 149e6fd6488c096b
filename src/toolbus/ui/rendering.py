"""The templates of the page. Every text is escaped: values are text, never markup."""

from __future__ import annotations

from toolbus.approvals.display import state_words
from toolbus.errors import LoadError
from toolbus.history import entry_texts
from toolbus.history.descriptions import utc_time
from toolbus.history.durations import duration_of, rough_duration
from toolbus.settings.extras import needs_extra
from toolbus.settings.visible_text import make_visible, shorten_visible
from toolbus.ui.addresses import address

try:
    import jinja2
except ImportError as error:
    msg = needs_extra("the page needs Jinja", "ui")
    raise LoadError(msg) from error

_TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("toolbus.ui"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters |= {
    "brief": shorten_visible,
    "duration": duration_of,
    "rough": rough_duration,
    "state_words": state_words,
    "utc_time": utc_time,
    "visible": lambda text: make_visible(text).text,
}
_TEMPLATES.globals |= {"address": address, "texts": entry_texts}


def find_template(name: str) -> jinja2.Template:
    """Return the template of the file *name* in the folder `templates`."""
    return _TEMPLATES.get_template(name)
