"""Our own rules: formats that the published set leaves out, and what an assignment tells.

Each was added because examples of the half that we develop with were missed without it; how much
each group brings stands in the table of `benchmarks/bench_redaction.py`.
"""

from __future__ import annotations

# What stands between a name and its value, and what ends a value.
_Q = r"""["'\x60]"""
_IS = r"""["'\x60)\]]{0,2}[ \t]{0,8}(?:=>|:=|\|\||=|:|,)\s{0,8}["'\x60(]{0,2}"""
_END = r"""(?:\\?["'\x60]|[\s;,)<}\]&]|\\[nr]|$)"""
_NAMED = (
    r"(?:api|access|account|auth|private|shared|signing|encryption)[ _.-]?key"
    r"|secret|token|pass|pwd|credential|[_ .-]pat\b|[a-z][_-]key"
)
# RFC 9110, section 11.6.2: a scheme and credentials.
_AUTHORIZATION = (
    rf"(?i)\bauthorization{_Q}?[ \t]{{0,4}}[:=,][ \t]{{0,4}}{_Q}?"
    r"[a-z][a-z0-9-]{2,15}[ \t]{1,4}([\w.~+/-]{8,}=*)"
)
_FLAG = rf"(?P<name>[\w-]{{0,24}}(?:{_NAMED})[\w-]{{0,12}})"
_CHOSEN = r"[\w!#$%&*+/=?@^~.-]{8,128}"
_VALUE = r"[A-Za-z0-9_+/=.~:-]{16,512}"

BUILTIN_RULES: tuple[tuple[str, str, bool], ...] = (
    # Named formats; each shape is from the source in `specs/credential_formats.toml`.
    ("google-oauth-client-secret", r"\b(GOCSPX-[\w-]{28})(?:[^\w-]|$)", False),
    ("google-oauth-access-token", r"\b(ya29\.[\w-]{20,1000})", False),
    ("github-refresh-token", r"\b(ghr_[A-Za-z0-9]{36,76})\b", False),
    ("pypi-upload-token", r"\b(pypi-AgEN[\w-]{50,1000})", False),
    ("crates-io-api-key", r"\b(cio[A-Za-z0-9]{32})\b", False),
    ("doppler-api-token", r"\b(dp\.(?:ct|st|sa|scim|audit)\.(?:[\w-]{2,35}\.)?\w{40,44})\b", False),
    ("discord-bot-token", r"\b([MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,38})(?:[^\w-]|$)", False),
    ("square-access-token", r"\b(sq0(?:atp-[\w-]{22}|csp-[\w-]{43}))(?:[^\w-]|$)", False),
    ("elevenlabs-api-key", r"\b(sk_[0-9a-f]{48})\b", False),
    ("new-relic-user-api-key", r"\b(NR(?:AK-[A-Z0-9]{27}|II-[\w-]{32}))(?:[^\w-]|$)", False),
    ("notion-api-token", r"\b(secret_[A-Za-z0-9]{43})\b", False),
    ("mapbox-secret-token", r"\b(sk\.eyJ[\w-]{20,200}\.[\w-]{20,30})(?:[^\w-]|$)", False),
    ("telegram-bot-api-token", r"(?:\b|bot)(\d{6,12}:A[\w-]{34})(?:[^\w-]|$)", False),
    ("nuget-api-key", r"\b(oy2[a-z0-9]{43})\b", False),
    ("stripe-webhook-secret", r"\b(whsec_[A-Za-z0-9+/]{32,64})", False),
    (
        "microsoft-teams-webhook",
        r"\boutlook\.office\.com/webhook/([0-9a-f-]{36}@[\w/-]{60,200})",
        False,
    ),
    (
        "okta-access-token",
        rf"(?i)(?:okta|ssws)[^\n]{{0,40}}\s[^\n]{{0,16}}?{_Q}?\b(00[\w-]{{40}})(?:[^\w-]|$)",
        True,
    ),
    ("azure-devops-pat", r"\b([A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4})\b", False),
    ("braintree-access-token", r"\b(access_token\$\w{4,12}\$[a-z0-9]{16}\$[0-9a-f]{32})\b", False),
    ("tailscale-key", r"\b(tskey-[a-z]{2,12}-\w{4,32}-\w{4,64})\b", False),
    ("contentful-management-token", r"\b(CFPAT-[\w-]{43,64})", False),
    ("dropbox-short-lived-api-token", r"\b(sl\.[\w-]{130,1000})(?:[^\w-]|$)", False),
    (
        "pagerduty-api-key",
        rf"(?i)(?:pagerduty|pager_duty|\bpd)[\w.-]{{0,16}}{_IS}(u\+[\w+-]{{18}})",
        False,
    ),
    ("authorization-header", _AUTHORIZATION, False),
    # A word, "_", and random letters and digits: the shape that GitHub made known.
    ("prefixed-token", r"\b([a-z][a-z0-9]{1,9}_(?:[a-z0-9]{2,8}_)?[A-Za-z0-9]{30,128})\b", True),
    # A number that names an account, and a key of it.
    ("numbered-token", r"\b((?:\d/)?(?:\d{8,20}/)?\d{8,20}:[\w-]{32,64})(?:[^\w-]|$)", True),
    # Whatever is assigned to a name that says "secret".
    (
        "assigned-secret",
        rf"(?i)(?P<name>(?:{_NAMED})[\w.-]{{0,24}}){_IS}(?P<value>{_VALUE}){_END}",
        True,
    ),
    # What people choose themselves is shorter, and has other signs.
    (
        "assigned-password",
        rf"(?i)(?P<name>(?:pass|pwd)[\w.-]{{0,24}}){_IS}(?P<value>{_CHOSEN}){_END}",
        True,
    ),
    (
        "flagged-secret",
        rf"(?i)--?{_FLAG}[ =]{{1,4}}{_Q}?(?P<value>{_VALUE}){_END}",
        True,
    ),
)
"""Name, pattern, and whether it is loose."""
