"""The tests of Rust under cargo-nextest: the command, its summary, and what failed when."""

import datetime
import re
import xml.etree.ElementTree
from collections import namedtuple

from tools import TARGET

# Times on the clock of the calendar.
Failed = namedtuple("Failed", "binary name begin end")


def command(profile, packages, expression, threads):
    """`profile` of .config/nextest.toml: two runs at a time have one each."""
    return ["cargo", "nextest", "run", *packages, "--profile", profile, "--build-jobs", "2", "--no-fail-fast", "--cargo-quiet",
            "--status-level", "fail", "--final-status-level", "slow", "--test-threads", str(threads), "-E", expression]


def summary(output):
    """`Summary [ 1.2s] 12 tests run: 10 passed (1 slow), 1 failed, 1 timed out, 3 skipped`: how many passed and failed, or nothing."""
    found = re.search(r"Summary \[.*?\] +\d+(?:/\d+)? tests? run: (.*)", output)
    if not found:
        return None
    numbers = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|timed out|exec failed)", found.group(1))}
    return numbers.get("passed", 0), sum(number for word, number in numbers.items() if word != "passed")


def failed(profile, since):
    """The tests that failed in this profile's last run, where that began after a moment."""
    try:
        suites = xml.etree.ElementTree.parse(TARGET / "nextest" / profile / "junit.xml").getroot()
    except (OSError, xml.etree.ElementTree.ParseError):
        return []
    if moment(suites) < since:
        return []
    return [Failed(suite.get("name"), case.get("name"), moment(case), moment(case) + float(case.get("time")))
            for suite in suites.iter("testsuite") for case in suite.iter("testcase")
            if case.find("failure") is not None or case.find("error") is not None]


def moment(element):
    return datetime.datetime.fromisoformat(element.get("timestamp")).timestamp()


def exactly(tests):
    """The expression that selects these tests."""
    return " | ".join(f"(binary_id(={test.binary}) & test(={test.name}))" for test in tests)
