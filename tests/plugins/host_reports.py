"""Says at the end of a run which coding agents the tests of hosts ran, and which they did not."""

import re


def pytest_terminal_summary(terminalreporter):
    """Name the programs, by the tests that ran them."""
    from host_programs import PROGRAMS

    reports = [
        report for kind in ("passed", "failed") for report in terminalreporter.getreports(kind)
    ]
    ids = [re.search(r"specs/test_hosts\.py::\w+\[([\w-]+)\]", each.nodeid) for each in reports]
    ran = sorted({each[1] for each in ids if each})
    if ran:
        missing = sorted({*PROGRAMS, "vibe", "opencode"} - set(ran))
        terminalreporter.write_sep("-", "coding agents")
        terminalreporter.write_line(f"ran: {', '.join(ran)}")
        terminalreporter.write_line(f"did not run: {', '.join(missing) or 'none'}")
        if "vibe" not in PROGRAMS:
            terminalreporter.write_line(
                "Mistral Vibe wants Python 3.12 or later, and none is found"
            )
