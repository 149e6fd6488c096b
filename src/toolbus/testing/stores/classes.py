"""All laws for every store in one class."""

from __future__ import annotations

from toolbus.testing.stores.content_laws import ContentLaws, ForgetLaws
from toolbus.testing.stores.order_laws import OrderLaws
from toolbus.testing.stores.reader_laws import ReaderLaws
from toolbus.testing.stores.state_laws import StateLaws
from toolbus.testing.stores.writer_laws import WriterLaws


class StoreLaws(OrderLaws, ContentLaws, ForgetLaws, WriterLaws, StateLaws, ReaderLaws):
    """What every store promises; a test class that inherits it runs them all."""
