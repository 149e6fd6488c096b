import re
import tomllib
from importlib.resources import files

import pytest

from toolbus.redaction.secrets.names import NameKind, name_at, name_kind

PASSWORDS = """
    password DB_PASSWORD db.password dbPassword MYSQL_ROOT_PASSWORD spring.datasource.password
    old_password newPassword password_confirmation password2 PASSWORD_PROD dbpassword userpwd
    DB_PASS PGPASS MYSQLPASS requirepass smtp-pass SMTP_PWD pw passphrase keyPassphrase wifi_psk
    passwort Kennwort contraseña senha mot.de.passe-mdp wachtwoord пароль 密码 数据库密码 パスワード
    비밀번호 पासवर्ड পাসওয়ার্ড
"""
SECRETS = """
    secret token client_secret clientSecret GITHUB_TOKEN accessToken auth-token _authToken bearer
    pat GITHUB_PAT REDIS_AUTH salt AUTH_SALT credential oauth2Token authtoken API_TOKEN_2
    api_key apiKey APIKey X-API-Key apikey secret_key SECRET_KEY_BASE private-key accessKey
    signingKey accountkey
"""
KEYS = """
    stripe_key deployKey token_github API_KEY_OPENAI secrets tokens
"""
NOTHING = """
    path file_path patch pattern patient compat compass bypass passenger passive tokenizer tokenize
    token_id secretId secret_name secretName kms_key_id secret_arn token_url tokenUri token_type
    password_changed_at token_path key_file token_count password_length tokenTtl secret_expiry
    password_policy secret_version passwordHash password_hash api_key_checksum secretRef
    password_regex primary_key foreignKey cache_key objectKey routing_key partition_key sortKey
    idempotency_key public_key max_tokens maxTokens totalTokens next_page_token pad_token eos_token
    key keys keyboard monkey hotkey secretary password_field passwordLabel secret_names has_password
    author authority authorization_url author_name author_id tokens_used
"""


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (PASSWORDS, NameKind.PASSWORD),
        (SECRETS, NameKind.SECRET),
        (KEYS, NameKind.KEY),
        (NOTHING, None),
    ],
)
def test_the_last_words_of_a_name_say_what_it_is(names, kind):
    assert {name: name_kind(name) for name in names.split()} == dict.fromkeys(names.split(), kind)


def test_a_name_is_read_from_its_begin():
    data = b"x, test_file-path: a/b"

    assert name_at(data, data.index(b"path"), data.index(b":")) == "test_file-path"


def test_a_type_of_a_cloud_is_no_name():
    data = b'"AWS::IAM::AccessKey": "x", "App::AccessKey": "y"'
    starts = [data.index(b"AccessKey"), data.rindex(b"AccessKey")]

    assert [name_at(data, start, start + 9) for start in starts] == ["", "AccessKey"]


def test_a_name_of_other_letters_is_read_whole():
    data = "数据库密码 x".encode()
    start = data.index("密码".encode())

    assert name_at(data, start, start + 6) == "数据库密码"


def test_of_a_long_name_no_more_than_its_end_is_read():
    assert name_at(b"a" * 10_000 + b"token", 10_000, 10_005) == "a" * 64 + "token"


def test_a_known_word_is_one_that_names_are_split_into():
    lists = tomllib.loads(
        files("toolbus.redaction.secrets").joinpath("names.toml").read_text("utf-8")
    )
    texts = [
        text
        for listed in lists.values()
        for text in ([listed] if isinstance(listed, str) else listed.values())
    ]

    words = " ".join(texts).split()
    assert [word for word in words if not re.fullmatch(r"[a-z]+|[^\x00-\x7f]+", word)] == []
