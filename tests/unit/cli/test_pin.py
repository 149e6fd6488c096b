import io

import pytest

from toolbus.cli.output.stream import Output
from toolbus.cli.pin import PinOptions, PinSources, run_pin
from toolbus.errors import LoadError


def test_where_nothing_is_pinned_the_way_out_is_to_pin(tmp_path):
    file = tmp_path / "toolbus.lock"
    output = Output(io.StringIO())

    with pytest.raises(LoadError, match=r"there is no such file; first pin the tools, without"):
        run_pin(output, PinOptions(PinSources(), lock=str(file), is_check=True))

    assert not file.exists()
