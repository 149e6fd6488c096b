"""Personal data that others publish as examples, and what only looks like it.

None of it belongs to anybody: banks, networks, standards and authorities made it up to show a
form, or to test with.
"""

from __future__ import annotations

PUBLISHED = {
    # https://docs.stripe.com/testing and PayPal's list of test numbers
    "card": [
        "4242424242424242", "4000056655665556", "5555555555554444", "2223003122003222",
        "5200828282828210", "5105105105105100", "378282246310005", "371449635398431",
        "6011111111111117", "6011000990139424", "3056930009020004", "36227206271667",
        "3566002020360505", "6200000000000005", "4012888888881881", "card 4222222222222",
        "30569309025904", "38520000023237", "4242 4242 4242 4242", "3782 822463 10005",
    ],
    # The examples of the SWIFT IBAN registry
    "iban": [
        "GB29 NWBK 6016 1331 9268 19", "DE89370400440532013000", "FR1420041010050500013M02606",
        "IT60X0542811101000000123456", "ES91 2100 0418 4502 0005 1332", "NL91ABNA0417164300",
        "BE68539007547034", "CH9300762011623852957", "AT611904300234573201",
        "SE4550000000058398257466", "NO9386011117947", "PL61109010140000071219812874",
        "PT50000201231234567890154", "DK5000400440116243", "FI2112345600000785",
        "IE29AIBK93115212345678", "GR1601101250000000012300695", "LU280019400644750000",
        "SA0380000000608010167519", "TR330006100519786457841326",
        "MT84MALT011000012345MTLCAST001S", "BR1800360305000010009795493C1",
    ],
    # Wikipedia, "Email address", valid examples; the last after RFC 6531
    "email": [
        "simple@example.com", "very.common@example.com", "FirstName.LastName@EasierReading.org",
        "x@example.com", "long.email-address-with-hyphens@and.subdomains.example.com",
        "user.name+tag+sorting@example.com", "name/surname@example.com",
        "mailhost!username@example.org", "user%example.com@example.org", "user-@example.org",
        "Pelé@example.com",
    ],
    # Agencia Tributaria, DVV, Skatteverket, GB 11643-1999, IBZ, ZAS, RvIG, BZSt, INSEE and others,
    # most of them by way of Wikipedia's "National identification number"
    "national-id": [
        "12345678Z", "X1234567L", "RSSMRA85T10A562S", "131052-308T", "personnummer 811228-9874",
        "11010519491231002X", "85.07.30-033 28", "756.9217.0769.85", "BSN 111222333",
        "PESEL: 44051401359", "111.444.777-35", "86 095 742 719", "Steuer-ID 86095742719",
        "2 55 08 14 168 025 38", "CPR 211062-5629", "1234567T", "1800101221144",
        "HEGG560427MVZRRL04", "12.345.678-5", "ID number: 8001015009087", "NHS: 943 476 5919",
    ],
}  # fmt: skip

LOOK_ALIKES = [
    "2024-01-15 10:00:00.123456", "1700000000", "1.2.3.4.5.6.7", "10.0.17763.1", "3.14159265358979",
    "0.4242424242424242", "12,345,678.90", "4242424242424241", "DE89370400440532013001",
    "d41d8cd98f00b204e9800998ecf8427e", "550e8400-e29b-41d4-a716-446655440000",
    "git@github.com:toolbus/toolbus.git", "icon@2x.png", "weights@x.transpose", "@decorator.name",
    "user@localhost", "192.168.100.200", "0201-1976", "1000000000000000", "ISBN 978-3-16-148410-0",
    "00:1a:2b:3c:4d:5e", "2001 2002 2003 2004", "000-12-3456", "12345678A", "a@b@c",
    "2.179 872 361 1030 e-18", "sin(0.25) of 123-456-782", "tan,sin,cos\n123-456-782 of",
]  # fmt: skip
