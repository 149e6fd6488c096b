"""Settings of git, given with a command or in a repository's file: which of them are harmless."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from toolbus.policy.programs.languages.language_data import language_data


def is_harmless_setting(setting: str) -> bool:
    """Tell whether *setting*, ``section.key=value``, only changes how git prints or works."""
    key, equals, value = setting.partition("=")
    key, settings = key.lower(), language_data().git_settings
    if any(fnmatchcase(key, glob) for glob in settings.harmless):
        return True
    return (value if equals else "true") in settings.values.get(key, ())


def harmful_setting(text: str) -> str:
    """Return the first setting in *text*, a repository's file, that is not harmless; "" if none is.

    What is not written as git itself writes it is not read, and returned as it is: git-config(1),
    Syntax.
    """
    section = ""
    for line in text.replace("\r\n", "\n").split("\n"):
        if match := _SECTION.fullmatch(line):
            section = match[1] + ("" if match[2] is None else f".{match[2]}")
        elif "\r" in line:
            return line
        elif line.strip() and not _COMMENT.match(line):
            match = _VALUE.fullmatch(line)
            if match is None or not section:
                return line.strip()
            key, value = f"{section}.{match[1]}".lower(), match[2] or ""
            if not (_is_stored(key, value) or is_harmless_setting(f"{key}={value}")):
                return key
    return ""


def _is_stored(key: str, value: str) -> bool:
    # "::" names a program that helps to reach an address: gitremote-helpers(7).
    stored = language_data().git_settings.stored
    return "::" not in value and any(fnmatchcase(key, glob) for glob in stored)


_SECTION = re.compile(r'\[([A-Za-z0-9-]+)(?: "([^"\\\n]*)")?\]\s*')
_COMMENT = re.compile(r"\s*[#;]")
_VALUE = re.compile(r'\s*([A-Za-z][A-Za-z0-9-]*)(?:\s*=\s*([^"\\#;]*))?')
