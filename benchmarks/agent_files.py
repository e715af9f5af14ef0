"""What stands in the workspaces of the agent's workloads before the agent comes."""

from __future__ import annotations

SHOP = {
    "AGENTS.md": "# The shop\n\nPlain Python, no packages. Run the tests with `sh check` before and after a change.\n",
    "prices.py": '''\
"""Prices of the shop, in cents."""

PRICES = {"apple": 40, "bread": 320, "cheese": 890, "milk": 130, "oil": 1150, "rice": 260, "salt": 90, "tea": 480}
REDUCED = {"bread", "milk", "rice"}
MANY = 10
DISCOUNT = 5  # per cent


def price_of(name):
    """The price of one piece."""
    if name not in PRICES:
        raise KeyError(f"{name} is not sold here")
    return PRICES[name]


def price_for(name, quantity):
    """The price of so many pieces; whoever takes many pays less."""
    whole = price_of(name) * quantity
    if quantity > MANY:
        whole -= whole * DISCOUNT // 100
    return whole


def tax_on(name, amount):
    """The tax in an amount; food that everybody needs is taxed less."""
    rate = 7 if name in REDUCED else 19
    return amount * rate // (100 + rate)
''',
    "basket.py": '''\
"""What a customer takes to the till."""

from prices import price_for, tax_on


class Basket:
    def __init__(self):
        self.pieces = {}

    def add(self, name, quantity=1):
        if quantity < 1:
            raise ValueError("a basket holds whole pieces")
        self.pieces[name] = self.pieces.get(name, 0) + quantity

    def remove(self, name):
        self.pieces.pop(name, None)

    def total(self):
        return sum(price_for(name, quantity) for name, quantity in self.pieces.items())

    def tax(self):
        return sum(tax_on(name, price_for(name, quantity)) for name, quantity in self.pieces.items())

    def lines(self):
        for name in sorted(self.pieces):
            quantity = self.pieces[name]
            yield f"{quantity:3d} {name:<10} {price_for(name, quantity) / 100:8.2f}"
''',
    "receipt.py": '''\
"""The text of a receipt."""


def receipt(basket):
    parts = ["Thank you for coming", ""]
    parts += basket.lines()
    parts += ["", f"total {basket.total() / 100:8.2f}", f"  tax {basket.tax() / 100:8.2f}"]
    return "\\n".join(parts)
''',
    "tests.py": '''\
"""Run with `sh check`."""

import sys

from basket import Basket
from prices import price_for, price_of, tax_on
from receipt import receipt

failed = 0


def check(function, arguments, wanted):
    global failed
    got = function(*arguments)
    if got != wanted:
        failed += 1
        print(f"FAILED {function.__name__}({', '.join(map(repr, arguments))}): got {got}, wanted {wanted}")


check(price_of, ("tea",), 480)
check(price_for, ("apple", 1), 40)
check(price_for, ("apple", 9), 360)
check(price_for, ("apple", 10), 380)
check(price_for, ("apple", 20), 760)
check(tax_on, ("milk", 107), 7)
check(tax_on, ("oil", 1190), 190)
basket = Basket()
basket.add("bread", 2)
basket.add("tea")
check(Basket.total, (basket,), 1120)
check(lambda text: text.splitlines()[-2], (receipt(basket),), "total    11.20")
print("9 checks, all right" if not failed else f"9 checks, {failed} failed")
sys.exit(1 if failed else 0)
''',
}

NOTES = {
    "AGENTS.md": "# The station\n\nVisitors read docs/. Short sentences. What nobody is sure of stays out.\n",
    "notes/1-what-it-measures.md": """\
# What it measures

Talked to the two who built it.

- The station measures temperature, wind, rain and the height of the water
- Temperature is read every minute and kept as a mean of ten minutes
- Wind is read every second, and the strongest gust of an hour is kept beside the mean
- Rain is counted in tips of a small bucket, each of them 0.2 millimetres
- The water is measured from above with sound, because floods took two floats away
- Snow depth could be measured with the same sensor (?)
""",
    "notes/2-how-it-is-powered.md": """\
# How it is powered

- Two panels on the southern side give 40 watts each on a clear day
- The battery lasts for nine days without any sun
- Below a quarter of its charge the station reads the wind once a minute only
- A third panel was promised for the autumn (?)
- Nobody has to switch anything: it comes back by itself when the sun does
""",
    "notes/3-how-it-reports.md": """\
# How it reports

- Every hour the station sends one message of at most 140 bytes by radio
- A message that was not answered is kept and sent again with the next one
- After a day without an answer it writes to its card only, and keeps silent until the evening
- The card holds eleven years
- The receiver in the village shows the last day on a screen at the window
- It may be possible to read the card by telephone (?)
""",
    "notes/4-who-looks-after-it.md": """\
# Who looks after it

- The school looks after it from September to June, the museum in the holidays
- The bucket is cleaned on the first Monday of every month
- The sensors are compared with a second set every spring, and the differences are written into the book
- Whoever opens the mast writes the time into the book, before and after
- The book is in the receiver's drawer
""",
}

MODULES = {
    "AGENTS.md": "# The ledger\n\nNames are written out. Rename one thing at a time, and run `sh check` after each.\n",
    "records.py": '''\
"""What was paid, by number."""


class Rec:
    def __init__(self, number, customer, cents):
        self.number, self.customer, self.cents = number, customer, cents

    def __eq__(self, other):
        return isinstance(other, Rec) and vars(self) == vars(other)


_kept = {}


def put_rec(found):
    if not isinstance(found, Rec):
        raise TypeError("only a Rec can be kept")
    _kept[found.number] = found


def get_rec(number):
    return _kept[number]


def numbers():
    return sorted(_kept)
''',
    "checks.py": '''\
"""What may be kept."""

from records import Rec


def chk(found):
    """Whether it is a record that makes sense."""
    return isinstance(found, Rec) and found.cents > 0 and bool(found.customer)
''',
    "amounts.py": '''\
"""How amounts are written."""


def fmt_amt(cents):
    sign = "-" if cents < 0 else ""
    return f"{sign}{abs(cents) // 100:,}.{abs(cents) % 100:02d}"


def tot(found):
    return sum(each.cents for each in found)
''',
}

BILLING = {
    "reports.py": '''\
"""What the office prints."""

from amounts import fmt_amt, tot
from records import get_rec, numbers


def report():
    found = [get_rec(number) for number in numbers()]
    lines = [f"{each.number:4d}  {each.customer:<12} {fmt_amt(each.cents):>10}" for each in found]
    lines.append(f"      {'total':<12} {fmt_amt(tot(found)):>10}")
    return "\\n".join(lines)


def of_customer(name):
    found = [get_rec(number) for number in numbers()]
    mine = [each for each in found if each.customer == name]
    return f"{name}: {fmt_amt(tot(mine))} in {len(mine)} payments"
''',
    "intake.py": '''\
"""How payments come in."""

from checks import chk
from records import Rec, get_rec, numbers, put_rec


def take(customer, cents):
    number = max(numbers(), default=0) + 1
    made = Rec(number, customer, cents)
    if not chk(made):
        raise ValueError(f"{customer!r} cannot have paid {cents}")
    put_rec(made)
    return number


def correct(number, cents):
    old = get_rec(number)
    made = Rec(number, old.customer, cents)
    if not chk(made):
        raise ValueError(f"{cents} is no payment")
    put_rec(made)
''',
    "tests.py": '''\
"""Run with `sh check`."""

import sys

from amounts import fmt_amt, tot
from checks import chk
from intake import correct, take
from records import Rec, get_rec, numbers, put_rec
from reports import of_customer, report

first, second = take("museum", 123456), take("school", 50)
correct(second, 75)
put_rec(Rec(9, "museum", 1))
answers = [
    numbers() == [1, 2, 9],
    get_rec(1) == Rec(1, "museum", 123456),
    get_rec(2).cents == 75,
    fmt_amt(-5) == "-0.05",
    tot([get_rec(1), get_rec(9)]) == 123457,
    not chk(Rec(1, "", 5)),
    of_customer("museum") == "museum: 1,234.57 in 2 payments",
    report().splitlines()[-1].split() == ["total", "1,235.32"],
]
wrong = [str(number) for number, right in enumerate(answers, start=1) if not right]
print(f"{len(answers)} checks, {'all right' if not wrong else 'wrong: ' + ', '.join(wrong)}")
sys.exit(1 if wrong else 0)
''',
}


def _skill(name: str, description: str, things: str, kinds: tuple[str, ...]) -> str:
    """A skill that this workload does not need: of the length that such texts have."""
    parts = [
        f"---\nname: {name}\ndescription: {description}\nlicense: Apache-2.0\nmetadata:\n  version: 1.0\n---\n",
        f"Read all of the {things} before you change or write anything, and keep a copy of what was there.\n",
    ]
    for kind in kinds:
        parts.append(
            f"## Each {kind}\n\n"
            f"Find every {kind} first and write down where it stands; do not begin with the first that you see. Say "
            f"what you will do with it in one line, then do it, then look there again. If a {kind} cannot be told "
            "from something else, leave it as it is and put it on the list of what is open. Two people who follow "
            f"this must come to the same result, so when you decide about a {kind} that this page does not speak of, "
            "write the rule that you have followed below the list, in words that the next one can follow.\n"
        )
    parts.append(
        f"At the end count the {things} again: none may be missing, and none may be there twice. Say in the last line "
        "how many there were, how many you have changed, and how many are open.\n"
    )
    return "\n".join(parts)


RELEASE_SKILL = {
    "changes.txt": """\
feature: stations can be searched by name
fix: times are shown in the station's zone
operation: the map tiles need 2 GB less
feature: dark mode for the map
fix: a station without rain is no longer hidden
internal: tests of the parser are twice as fast
""",
    ".holdfast/skills/release-notes/SKILL.md": """\
---
name: release-notes
description: Use when release notes are to be written from a list of changes, such as changes.txt.
license: Apache-2.0
metadata:
  version: 1.0
---

Release notes are read by people who use the program, so they are ordered by reader and not by date.

The page is called RELEASE.md and begins with the heading `# Release notes`. Below it there is one section for each kind
of change, in this order:

- `feature` goes under **New for users**.
- `fix` goes under **Repaired**.
- `operation` goes under **For those who run it**.

Each change is one line of its section's list, in the words of the list of changes, sorted by the alphabet. What is
internal is left out: nobody who reads the page can see it. A section has no text beside its list.

The last line is always: Thanks to everybody who told us what did not work.

Before you write the page, read the whole list of changes. Afterwards read the page once more, and compare: every change
that is not internal stands in it once, and nothing else does. If a kind is new, ask before you make up a section.
""",
    ".holdfast/skills/write-minutes/SKILL.md": _skill(
        "write-minutes",
        "Use when minutes of a meeting are to be written from what somebody has noted down.",
        "minutes",
        ("decision", "task", "question that was put off", "date that was agreed on"),
    ),
    ".holdfast/skills/check-links/SKILL.md": _skill(
        "check-links",
        "Use when links in pages are to be checked and mended.",
        "pages",
        ("link to another page", "link to an image", "link to a heading", "link to somebody else's site"),
    ),
    ".holdfast/skills/clean-tables/SKILL.md": _skill(
        "clean-tables",
        "Use when tables of measurements are to be cleaned before they are published.",
        "tables",
        ("empty cell", "value beyond the sensor's range", "row that comes twice", "time without a zone"),
    ),
    ".holdfast/skills/answer-letters/SKILL.md": _skill(
        "answer-letters",
        "Use when letters of visitors are to be answered.",
        "letters",
        ("question about the data", "complaint", "offer to help", "request for a visit"),
    ),
}
