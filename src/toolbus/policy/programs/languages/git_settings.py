"""Settings of git that can be given with a command: which of them are harmless."""

from __future__ import annotations

from fnmatch import fnmatchcase

from toolbus.policy.programs.languages.language_data import language_data


def is_harmless_setting(setting: str) -> bool:
    """Tell whether *setting*, ``section.key=value``, only changes how git prints or works."""
    key, equals, value = setting.partition("=")
    key, settings = key.lower(), language_data().git_settings
    if any(fnmatchcase(key, glob) for glob in settings.harmless):
        return True
    return (value if equals else "true") in settings.values.get(key, ())
