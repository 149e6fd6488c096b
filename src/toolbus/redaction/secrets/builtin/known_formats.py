"""Formats by which a credential is known wherever it stands, and that the published set leaves out.

Each shape is from the source in `specs/credential_formats.toml`.
"""

from __future__ import annotations

from toolbus.redaction.secrets.builtin.grammar import BuiltinRule

_Q = r"""["'\x60]"""
_IS = r"""["'\x60)\]]{0,2}[ \t]{0,8}(?:=>|:=|\|\||=|:|,)\s{0,8}["'\x60(]{0,2}"""
# RFC 9110, section 11.6.2: a scheme and credentials.
_AUTHORIZATION = (
    rf"(?i)\bauthorization{_Q}?[ \t]{{0,4}}[:=,][ \t]{{0,4}}{_Q}?"
    r"[a-z][a-z0-9-]{2,15}[ \t]{1,4}([\w.~+/-]{8,}=*)"
)

KNOWN_FORMATS = (
    BuiltinRule("google-oauth-client-secret", r"\b(GOCSPX-[\w-]{28})(?:[^\w-]|$)"),
    BuiltinRule("google-oauth-access-token", r"\b(ya29\.[\w-]{20,1000})"),
    BuiltinRule("github-refresh-token", r"\b(ghr_[A-Za-z0-9]{36,76})\b"),
    BuiltinRule("pypi-upload-token", r"\b(pypi-AgEN[\w-]{50,1000})"),
    BuiltinRule("crates-io-api-key", r"\b(cio[A-Za-z0-9]{32})\b"),
    BuiltinRule(
        "doppler-api-token", r"\b(dp\.(?:ct|st|sa|scim|audit)\.(?:[\w-]{2,35}\.)?\w{40,44})\b"
    ),
    BuiltinRule("discord-bot-token", r"\b([MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,38})(?:[^\w-]|$)"),
    BuiltinRule("square-access-token", r"\b(sq0(?:atp-[\w-]{22}|csp-[\w-]{43}))(?:[^\w-]|$)"),
    BuiltinRule("elevenlabs-api-key", r"\b(sk_[0-9a-f]{48})\b"),
    BuiltinRule("new-relic-user-api-key", r"\b(NR(?:AK-[A-Z0-9]{27}|II-[\w-]{32}))(?:[^\w-]|$)"),
    BuiltinRule("notion-api-token", r"\b(secret_[A-Za-z0-9]{43})\b"),
    BuiltinRule("mapbox-secret-token", r"\b(sk\.eyJ[\w-]{20,200}\.[\w-]{20,30})(?:[^\w-]|$)"),
    BuiltinRule("telegram-bot-api-token", r"(?:\b|bot)(\d{6,12}:A[\w-]{34})(?:[^\w-]|$)"),
    BuiltinRule("nuget-api-key", r"\b(oy2[a-z0-9]{43})\b"),
    BuiltinRule("stripe-webhook-secret", r"\b(whsec_[A-Za-z0-9+/]{32,64})"),
    BuiltinRule(
        "microsoft-teams-webhook",
        r"\boutlook\.office\.com/webhook/([0-9a-f-]{36}@[\w/-]{60,200})",
    ),
    BuiltinRule(
        "okta-access-token",
        rf"(?i)(?:okta|ssws)[^\n]{{0,40}}\s[^\n]{{0,16}}?{_Q}?\b(00[\w-]{{40}})(?:[^\w-]|$)",
        loose=True,
    ),
    BuiltinRule("azure-devops-pat", r"\b([A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4})\b"),
    BuiltinRule(
        "braintree-access-token", r"\b(access_token\$\w{4,12}\$[a-z0-9]{16}\$[0-9a-f]{32})\b"
    ),
    BuiltinRule("tailscale-key", r"\b(tskey-[a-z]{2,12}-\w{4,32}-\w{4,64})\b"),
    BuiltinRule("contentful-management-token", r"\b(CFPAT-[\w-]{43,64})"),
    BuiltinRule("dropbox-short-lived-api-token", r"\b(sl\.[\w-]{130,1000})(?:[^\w-]|$)"),
    BuiltinRule(
        "pagerduty-api-key",
        rf"(?i)(?:pagerduty|pager_duty|\bpd)[\w.-]{{0,16}}{_IS}(u\+[\w+-]{{18}})",
    ),
    BuiltinRule("authorization-header", _AUTHORIZATION, kind="password"),
    # A word, "_", and random letters and digits: the shape that GitHub made known.
    BuiltinRule(
        "prefixed-token",
        r"\b([a-z][a-z0-9]{1,9}_(?:[a-z0-9]{2,8}_)?[A-Za-z0-9]{30,128})\b",
        loose=True,
    ),
    # A number that names an account, and a key of it.
    BuiltinRule(
        "numbered-token", r"\b((?:\d/)?(?:\d{8,20}/)?\d{8,20}:[\w-]{32,64})(?:[^\w-]|$)", loose=True
    ),
)
