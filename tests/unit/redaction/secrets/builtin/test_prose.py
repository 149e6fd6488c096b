"""Passwords in sentences, of several languages."""

import pytest
from tests.unit.redaction.secrets.builtin.shapes import surviving

SHAPES = {
    "is": ("cps", "The password is «»"),
    "is, in a sentence": ("cps", "The admin password is «», please change it."),
    "is, end of a sentence": ("cp", "The new password for the staging database is «»."),
    "is, code": ("cps", "The password is `«»`."),
    "is, quotes": ("cps", 'His password is "«»".'),
    "is, bold": ("cps", "Your password is **«»**"),
    "was changed": ("cps", "The root password was changed to «»"),
    "set to": ("cps", "I set the password to «» for now"),
    "for": ("cps", "password for admin: «»"),
    "colon": ("cps", "login: admin, password: «»"),
    "use": ("cps", "use «» as the password"),
    "log in": ("cps", "login with admin / «»"),
    "log in, code": ("cps", "Log in as `admin` / `«»`"),
    "credentials": ("cps", "Credentials: admin:«»"),
    "user/pass": ("cps", "user/pass: admin / «»"),
    "token": ("px", "my token is «»"),
    "api key": ("px", "The API key is «»"),
    "api key, colon": ("px", "API key: «»"),
    "german": ("cps", "Benutzer: admin\nPasswort: «»"),
    "german, lautet": ("cps", "Das Passwort lautet «»"),
    "german, Kennwort": ("cps", "Kennwort: «»"),
    "german, ist": ("cps", "Das Passwort ist «»."),
    "spanish": ("cps", "Usuario: admin\nContraseña: «»"),
    "spanish, es": ("cps", "La contraseña es «»"),
    "french": ("cps", "Mot de passe : «»"),
    "french, est": ("cps", "Le mot de passe est «»"),
    "portuguese": ("cps", "Senha: «»"),
    "portuguese, é": ("cps", "A senha é «»"),
    "italian": ("cps", "La password è «»"),
    "dutch": ("cps", "Wachtwoord: «»"),
    "polish": ("cps", "Hasło: «»"),
    "turkish": ("cps", "Şifre: «»"),
    "russian": ("cps", "Логин: admin\nПароль: «»"),
    "russian, dash": ("cps", "пароль — «»"),
    "chinese": ("cps", "用户名：admin\n密码：«»"),
    "chinese, is": ("cps", "密码是«»"),
    "chinese, colon": ("cps", "密码: «»"),
    "japanese": ("cps", "パスワード：«»"),
    "japanese, wa": ("cps", "パスワードは «» です"),
    "korean": ("cps", "비밀번호: «»"),
    "arabic": ("cps", "كلمة المرور: «»"),
    "hindi": ("cps", "पासवर्ड: «»"),
    "bengali": ("cps", "পাসওয়ার্ড: «»"),
    "urdu": ("cps", "پاسورڈ: «»"),
    "indonesian": ("cps", "Kata sandi: «»"),
}


@pytest.mark.parametrize(("kinds", "shape"), SHAPES.values(), ids=SHAPES)
def test_a_password_in_a_sentence_is_taken(kinds, shape):
    assert surviving(shape, kinds) == []
