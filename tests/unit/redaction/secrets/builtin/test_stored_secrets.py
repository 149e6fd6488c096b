"""Secrets in the files in which programs keep them."""

import random
import string
from base64 import b64encode

import pytest
from tests.unit.redaction.secrets.builtin.shapes import cleaned

CRYPT = string.ascii_letters + string.digits + "./"
BASE64 = string.ascii_letters + string.digits + "+/"


def drawn(alphabet, count, seed=1):
    return "".join(random.Random(f"{alphabet}{count}{seed}").choices(alphabet, k=count))


def hexadecimal(count, seed=1):
    return drawn("0123456789abcdef", count, seed)


def basic(seed=1):
    return b64encode(f"ci:{drawn(BASE64, 16, seed)}".encode()).decode()


PUBLIC = {"5" * 32, "saltsalt", "saltsaltsalt"}
SECRETS = {
    "terraform": (
        '{{"type": "random_password", "instances": [{{"attributes": {{"result": "{}"}}}}]}}',
        [drawn(CRYPT, 24)],
    ),
    "putty": (
        "Comment: a\nPublic-Lines: 1\nAAAA\nPrivate-Lines: 2\n{}\n{}\nPrivate-MAC: {}\n",
        [drawn(BASE64, 64), drawn(BASE64, 44), hexadecimal(64)],
    ),
    "jwk": ('{{"kty": "EC", "crv": "P-256", "kid": "a", "d": "{}"}}', [drawn(CRYPT[:62], 43)]),
    "jwk, d first": ('{{"d":"{}","kty":"OKP"}}', [drawn(CRYPT[:62], 43)]),
    "jwk of RSA": (
        '{{"kty":"RSA","d":"{}","p":"{}","q":"{}"}}',
        [drawn(CRYPT[:62], 342), drawn(CRYPT[:62], 171), drawn(CRYPT[:62], 171, 2)],
    ),
    "jenkins": ("<secret>{{{}}}</secret>", ["AQAAABAAAAAg" + drawn(BASE64, 50) + "=="]),
    "ansible": ("$ANSIBLE_VAULT;1.1;AES256\n{}\n{}\n", [hexadecimal(80), hexadecimal(80, 2)]),
    "twilio": ("new Client('AC{}', '{}')", ["5" * 32, hexadecimal(32)]),
    "shadow": ("root:$6${}${}:19000:0:99999:7:::", ["saltsalt", drawn(CRYPT, 86)]),
    "shadow, yescrypt": ("root:$y$j9T${}${}:19000::", ["saltsalt", drawn(CRYPT, 43)]),
    "htpasswd": ("admin:$apr1${}${}\n", ["saltsalt", drawn(CRYPT, 22)]),
    "htpasswd, bcrypt": ("admin:$2y$05${}\n", [drawn(CRYPT, 53)]),
    "argon2": ("$argon2id$v=19$m=65536,t=3,p=4${}${}", [drawn(BASE64, 22), drawn(BASE64, 43)]),
    "ldap": ("userPassword: {{SSHA}}{}==", [drawn(BASE64, 38)]),
    "django": ("pbkdf2_sha256$600000${}${}=", ["saltsaltsalt", drawn(BASE64, 43)]),
    "werkzeug": ("scrypt:32768:8:1${}${}", ["saltsaltsalt", hexadecimal(128)]),
    "postgres": ("('app', 'md5{}')", [hexadecimal(32)]),
    "postgres, scram": (
        "SCRAM-SHA-256$4096:{}==${}=:{}=",
        [drawn(BASE64, 22), drawn(BASE64, 43), drawn(BASE64, 43, 2)],
    ),
    "mysql": ("IDENTIFIED BY PASSWORD '*{}'", [hexadecimal(40).upper()]),
    "windows": ("Administrator:500:{}:{}:::", [hexadecimal(32), hexadecimal(32, 2)]),
    "docker": ('{{"auths": {{"registry.example.com": {{"auth": "{}"}}}}}}', [basic()]),
    "npm": ("//registry.example.com/:_auth={}\n", [basic(2)]),
    "netrc": ("machine x.example.com login a password {}\n", [drawn(BASE64[:62], 16)]),
    "netrc, lines": ("machine x\n  login a\n  password {}\n", [drawn(BASE64[:62], 16)]),
    "kubeconfig": ("    client-key-data: {}\n", ["LS0tLS1CRUdJTi" + drawn(BASE64, 400)]),
    "kubeconfig, token": ("  user:\n    token: {}\n", [drawn(BASE64[:62], 40)]),
    "git credentials": ("https://a:{}@git.example.com\n", [drawn(BASE64[:62], 20)]),
    "rails": ("production:\n  secret_key_base: {}\n", [hexadecimal(128)]),
    "cargo": ('[registry]\ntoken = "{}"\n', [drawn(BASE64[:62], 32)]),
    "wordpress": ("define('AUTH_KEY',  '{}');", [drawn("!#%&*+-=?@^_~|:." + BASE64, 64)]),
}


@pytest.mark.parametrize(("shape", "values"), SECRETS.values(), ids=SECRETS)
def test_what_a_program_keeps_is_taken(shape, values):
    clean = cleaned(shape.format(*values))

    assert not [value for value in values if value in clean and value not in PUBLIC]
