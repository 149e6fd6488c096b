"""Names and values that are said by keys, elements and attributes of their own."""

import asyncio

import pytest
from tests.unit.redaction.secrets.builtin.shapes import redactor, surviving, values

from toolbus.messages import ToolResponse
from toolbus.messages.record_walker import rewrite_response

SHAPES = {
    "name and value": ("cpsxu", '{"name": "DB_PASSWORD", "value": "«»"}'),
    "close": ("cpsxu", '{"name":"DB_PASSWORD","value":"«»"}'),
    "value first": ("cpsxu", '{"value": "«»", "name": "DB_PASSWORD"}'),
    "key and value": ("pxu", '{"key": "CLIENT_SECRET", "value": "«»"}'),
    "something between": ("cpsxu", '{"name": "DB_PASSWORD", "type": "text", "value": "«»"}'),
    "lines": ("cpsxu", '{\n  "name": "DB_PASSWORD",\n  "value": "«»"\n}'),
    "lines, value first": ("cpsxu", '{\n  "value": "«»",\n  "name": "DB_PASSWORD"\n}'),
    "in a text": ("cpsx", r'"{\"name\":\"DB_PASSWORD\",\"value\":\"«»\"}"'),
    "kubernetes": ("cpsxu", "env:\n- name: DB_PASSWORD\n  value: «»\n- name: X\n  value: y"),
    "kubernetes, quotes": ("cpsxu", '  - name: DB_PASSWORD\n    value: "«»"\n'),
    "kubernetes, value first": ("cpsxu", "env:\n- value: «»\n  name: DB_PASSWORD\n"),
    "kubernetes, flow": ("cpx", "- {name: DB_PASSWORD, value: «»}"),
    "kubernetes, flow and quotes": ("cpsx", '- {name: DB_PASSWORD, value: "«»"}'),
    "ecs": (
        "cpsxu",
        '"environment": [{"name": "A", "value": "b"}, {"name": "DB_PASS", "value": "«»"}]',
    ),
    "cloudformation": ("cpsxu", '{"ParameterKey": "DBPassword", "ParameterValue": "«»"}'),
    "cloudformation, command": ("cpx", "--parameters ParameterKey=DBPassword,ParameterValue=«»"),
    "github variables": (
        "cpsxu",
        '{"name":"DB_PASSWORD","value":"«»","created_at":"2026-01-01T00:00:00Z"}',
    ),
    "gitlab variables": (
        "cpsxu",
        '{"variable_type":"env_var","key":"DB_PASSWORD","value":"«»","protected":true}',
    ),
    "hcl": ("cpsxu", 'set {\n  name  = "db.password"\n  value = "«»"\n}'),
    "javascript": ("cpsxu", "{ name: 'DB_PASSWORD', value: '«»' }"),
    "python": ("cpsxu", "{'name': 'DB_PASSWORD', 'value': '«»'}"),
    "hadoop": ("cpsxu", "<property>\n  <name>db.password</name>\n  <value>«»</value>\n</property>"),
    "one line of xml": ("cpsxu", "<name>db.password</name><value>«»</value>"),
    "plist": ("cpsxu", "<key>Password</key>\n<string>«»</string>"),
    "spring": ("cpsxu", '<property name="password" value="«»"/>'),
    "spring, value first": ("cpsxu", '<property value="«»" name="password"/>'),
    "spring, nested": ("cpsxu", '<property name="password">\n  <value>«»</value>\n</property>'),
    "appSettings": ("cpsxu", '<add key="SmtpPassword" value="«»" />'),
    "settings": (
        "cpsxu",
        '<setting name="Password" serializeAs="String"><value>«»</value></setting>',
    ),
    "entry": ("cpsxu", '<entry key="db.password">«»</entry>'),
    "android": ("pxu", '<string name="api_secret">«»</string>'),
    "form": ("cpsxu", '<input type="password" name="p" id="x" value="«»">'),
    "form, a token": ("px", '<input type="hidden" name="csrf_token" value="«»">'),
    "meta": ("px", '<meta name="csrf-token" content="«»">'),
    "maven": ("cpsxu", "<server><id>x</id><username>a</username><password>«»</password></server>"),
    "jenkins": ("cpsxu", "<password>\n  «»\n</password>"),
    "filezilla": ("px", '<Pass encoding="base64">«»</Pass>'),
    "soap": ("cpsxu", '<wsse:Password Type="http://x#PasswordText">«»</wsse:Password>'),
    "cdata": ("cpsx", "<password><![CDATA[«»]]></password>"),
    "api token": ("pxu", "<apiToken>«»</apiToken>"),
    "attribute": ("cpsxu", '<user username="tomcat" password="«»" roles="manager"/>'),
    "postman": ("pxu", '{"key": "api_token", "value": "«»", "type": "string"}'),
    "label": ("cpsx", '{"label": "Password", "value": "«»"}'),
}


@pytest.mark.parametrize(("kinds", "shape"), SHAPES.values(), ids=SHAPES)
def test_a_value_beside_the_name_of_a_secret_is_taken(kinds, shape):
    assert surviving(shape, kinds) == []


@pytest.mark.parametrize("names", [("name", "value"), ("key", "value"), ("Name", "Value")])
def test_a_pair_in_a_structure_is_known_as_in_a_text(names):
    name, value = names
    for secret in values("cpsxu"):
        given = {"env": [{name: "HOST", value: "db"}, {name: "DB_PASSWORD", value: secret}]}

        clean = asyncio.run(
            redactor().clean(secret + name, ToolResponse(structured=given), rewrite_response)
        )

        assert secret not in str(clean.structured)
        assert clean.structured["env"][0] == {name: "HOST", value: "db"}
