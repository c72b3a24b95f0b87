"""Runs the official conformance suites against our client and the servers that ship, scenario by scenario.

    python tests/conformance/run.py DIR [SUITE...] [--scenario WORD]

DIR is what .ci/real_servers has filled. The exit code is 1 when a scenario fails that expected_failures/SUITE.yml does
not name, and when one that it names passes: then the line is to be taken out, so the files only shrink. A line
SCENARIO:CHECK expects that check alone to fail. A message that breaks the protocol's schema is never expected.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

FOLDER = Path(__file__).parent
LIMIT_S = 120
SHOWN_LINES = 20
# Run once more where it fails: its server takes the client's first GET for a reconnection that came "-59 ms" too early,
# when a busy machine sends it after the call (measured, both releases have it).
AGAIN = "sse-retry"
SCHEMA = "wire-schema-valid"

STAMP = re.compile(r"-\d{4}-\d\d-\d\dT[\d-]+Z$")
"""What a release adds to the name of a scenario's folder."""

Outcome = Literal["passed", "failed"]
Check = dict[str, Any]
"""A check as a release writes it, with `id`, `status` and, where it failed, `errorMessage`."""


@dataclass(frozen=True)
class Suite:
    """Scenarios that belong together: a release of the suite, and its own words for which ones.

    `tag` stands in brackets behind their names in the release's list; `alone` is how many the SDK passes without us,
    for a server with one that is made for the suite. `side` is what of ours is tested; of the servers, that which the
    words of `serve` start; of the client, the program `client`, which tries `scenarios` alone if there are any. `like`:
    scenarios that the suite of that name expects to fail are left out, because they ask for tools and resources that
    only a server made for the suite has. With the words of `serve` empty, that is subject.py, on our serving code.
    """

    release: str
    words: tuple[str, ...]
    tag: str
    alone: int
    side: Literal["client", "server"] = "client"
    serve: tuple[str, ...] = ("board",)
    like: str = ""
    client: str = "client.py"
    scenarios: tuple[str, ...] = ()


# What the other servers need on their command line: nothing here is called by a scenario.
OPTIONS: dict[str, tuple[str, ...]] = {"claude": (), "llm": ()}
# Scenarios in which nobody logs in, by what uses our client and the revision of the protocol; `client.py` tries all. A
# chat with `-p` has nobody who fills a form, and its model does not repeat a whole schema.
PARTS: dict[tuple[str, str], tuple[str, ...]] = {
    ("library", "2025-11-25"): (
        "initialize",
        "tools_call",
        "elicitation-sep1034-client-defaults",
        "sse-retry",
        "json-schema-2020-12-preservation",
    ),
    ("library", "2026-07-28"): (
        "tools_call",
        "request-metadata",
        "sep-2322-client-request-state",
        "http-standard-headers",
        "http-custom-headers",
        "http-invalid-tool-headers",
        "json-schema-ref-no-deref",
        "json-schema-2020-12-preservation",
    ),
    ("chat", "2025-11-25"): ("initialize", "tools_call", "sse-retry"),
    ("chat", "2026-07-28"): (
        "tools_call",
        "request-metadata",
        "http-standard-headers",
        "http-custom-headers",
        "http-invalid-tool-headers",
        "json-schema-ref-no-deref",
    ),
}
SUITES = {
    "0.1.16": Suite("0.1.16", (), "", 25),
    "2025-03-26": Suite("0.2.0-alpha.12", ("--spec-version", "2025-03-26"), "2025-03-26", 2),
    "2025-11-25": Suite("0.2.0-alpha.12", ("--spec-version", "2025-11-25"), "2025-11-25", 19),
    "2026-07-28": Suite("0.2.0-alpha.12", ("--spec-version", "2026-07-28"), "2026-07-28", 33),
    "one-shot-2025-11-25": Suite(
        "0.2.0-alpha.12",
        ("--spec-version", "2025-11-25"),
        "2025-11-25",
        3,
        client="one_shot.py",
        scenarios=("initialize", "tools_call", "sse-retry"),
    ),
    "one-shot-2026-07-28": Suite(
        "0.2.0-alpha.12",
        ("--spec-version", "2026-07-28"),
        "2026-07-28",
        1,
        client="one_shot.py",
        # the others want that no `initialize` is tried first, as one-shot commands do for the servers of today
        scenarios=("tools_call",),
    ),
    **{
        f"{part}-{version}": Suite(
            "0.2.0-alpha.12",
            ("--spec-version", version),
            version,
            len(scenarios),
            client=f"{part}.py",
            scenarios=scenarios,
        )
        for (part, version), scenarios in PARTS.items()
    },
    "extensions": Suite("0.2.0-alpha.12", (), "extension", 3),
    "server-0.1.16": Suite("0.1.16", (), "", 32, "server"),
    "server-2025-11-25": Suite("0.2.0-alpha.12", ("--spec-version", "2025-11-25"), "2025-11-25", 33, "server"),
    "server-2026-07-28": Suite("0.2.0-alpha.12", ("--spec-version", "2026-07-28"), "2026-07-28", 40, "server"),
    **{
        f"{name}-2026-07-28": Suite(
            "0.2.0-alpha.12",
            ("--spec-version", "2026-07-28"),
            "2026-07-28",
            15,
            "server",
            (name, *options),
            like="server-2026-07-28",
        )
        for name, options in OPTIONS.items()
    },
    **{
        f"subject-{version}": Suite(release, words, tag, alone, "server", serve=())
        for version, release, words, tag, alone in (
            ("0.1.16", "0.1.16", (), "", 32),
            ("2025-11-25", "0.2.0-alpha.12", ("--spec-version", "2025-11-25"), "2025-11-25", 33),
            ("2026-07-28", "0.2.0-alpha.12", ("--spec-version", "2026-07-28"), "2026-07-28", 40),
        )
    },
    "server-extensions": Suite("0.2.0-alpha.12", (), "extension", 3, "server"),
}


@dataclass(frozen=True)
class Result:
    """One scenario's end: its checks, how many succeeded, the names of those that failed, and what is to be said."""

    scenario: str
    outcome: Outcome
    succeeded: int
    checks: int
    failed: frozenset[str]
    said: str

    def is_expected(self, expected: set[str]) -> bool:
        """Whether it ended as the lines of expected failures say."""
        lines = {line for line in expected if line.startswith(f"{self.scenario}:")}
        if lines:
            return lines == {f"{self.scenario}:{check}" for check in self.failed}
        return SCHEMA not in self.failed and (self.outcome == "failed") is (self.scenario in expected)


def main(arguments: Sequence[str]) -> int:
    about = "Run the conformance suites against our client and the servers that ship."
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("place", type=Path, metavar="DIR")
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"one of {', '.join(SUITES)}; default: all")
    parser.add_argument("--scenario", default="", metavar="WORD", help="only scenarios that have this in their name")
    options = parser.parse_args(arguments)
    unexpected = [run_suite(name, options.place, options.scenario) for name in options.suites or SUITES]
    return 1 if any(unexpected) else 0


def run_suite(name: str, place: Path, word: str) -> int:
    """Runs and prints one suite; gives how many results were not what the file of expected failures says."""
    suite = SUITES[name]
    expected = read_expected(suite.like or name)
    left_out = {line for line in expected if suite.like and ":" not in line}
    expected -= left_out
    scenarios = [scenario for scenario in list_scenarios(suite, place) if word in scenario and scenario not in left_out]
    scenarios = [scenario for scenario in scenarios if scenario in (suite.scenarios or (scenario,))]
    with start_subject(suite) as subject:
        results = (try_client if suite.side == "client" else try_server)(suite, place, subject, scenarios)
    wrong = [result for result in results if not result.is_expected(expected)]
    for result in results:
        print(f"  {result.outcome:6} {result.succeeded:2}/{result.checks:<2} {result.scenario}")
    for result in wrong:
        print(f"  UNEXPECTED: {result.scenario} has {result.outcome}\n{result.said}\n")
    unknown = [] if word else sorted({line.partition(":")[0] for line in expected} - {*scenarios})
    print(*(f"  UNEXPECTED: there is no scenario {scenario}\n" for scenario in unknown), sep="", end="")
    count = {outcome: sum(result.outcome == outcome for result in results) for outcome in ("passed", "failed")}
    print(
        f"conformance {name}: {count['passed']} of {len(results)} passed (the SDK alone: {suite.alone}), "
        f"{count['failed']} failed, {len(wrong) + len(unknown)} unexpected",
        flush=True,
    )
    return len(wrong) + len(unknown)


def list_scenarios(suite: Suite, place: Path) -> list[str]:
    """The names of a suite's scenarios, as the release lists them."""
    listed = read_list(suite.release, place)
    _, _, section = listed.partition(f"{suite.side.capitalize()} scenarios")
    section, _, _ = section.partition("\n\n")
    rows = re.findall(r"^  - (\S+) \[(.*)\]$", section, flags=re.MULTILINE)
    names = [name for name, tags in rows if suite.tag in ("", *tags.split(","))]
    assert names, listed
    return names


@cache
def read_list(release: str, place: Path) -> str:
    """What a release prints about its scenarios."""
    done = subprocess.run(
        [*command(release, place), "list"], capture_output=True, encoding="utf-8", timeout=LIMIT_S, check=True
    )
    return done.stdout


@contextmanager
def start_subject(suite: Suite) -> Iterator[list[str]]:
    """The release's words for what is tested: our client's command, or the URL of a server, which runs."""
    if suite.side == "client":
        yield ["client", "--command", f"{sys.executable} {FOLDER / suite.client}"]
        return
    server = [sys.executable, str(FOLDER / "subject.py")]
    if suite.serve:
        server = [sys.executable, "-m", "rkllm_chat", "serve", *suite.serve, "--http", "0", "--no-token"]
    with subprocess.Popen(server, stderr=subprocess.PIPE, encoding="utf-8") as process:
        try:
            assert process.stderr
            url = next(line.split()[-1] for line in process.stderr if "listens at" in line)
            yield ["server", "--url", url]
        finally:
            process.terminate()


def try_client(suite: Suite, place: Path, subject: Sequence[str], scenarios: Sequence[str]) -> list[Result]:
    """Results of our client, which the release starts for each scenario; as many run at once as there are cores."""

    def try_one(scenario: str) -> Result:
        written, said, code = try_scenarios(suite, place, [*subject, "--scenario", scenario])
        checks = [check for checks in written.values() for check in checks]
        return make_result(scenario, checks, code == 0, said)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(try_one, scenarios))
    return [try_one(AGAIN) if (result.scenario, result.outcome) == (AGAIN, "failed") else result for result in results]


def try_server(suite: Suite, place: Path, subject: Sequence[str], scenarios: Sequence[str]) -> list[Result]:
    """Results of a server, which the release tries with one scenario after another."""
    written, said, _ = try_scenarios(suite, place, [*subject, "--suite", "all"])
    checks = {STAMP.sub("", name).removeprefix("server-"): checks for name, checks in written.items()}
    return [make_result(scenario, checks.get(scenario, []), True, said) for scenario in scenarios]


def try_scenarios(suite: Suite, place: Path, words: Sequence[str]) -> tuple[dict[str, list[Check]], str, int]:
    """Checks by the folder that a release wrote for each scenario, the end of what it printed, and its exit code."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [*command(suite.release, place), *words, *suite.words, "-o", folder],
            capture_output=True,
            encoding="utf-8",
            timeout=LIMIT_S,
            check=False,
        )
        files = Path(folder).rglob("checks.json")
        written = {path.parent.name: json.loads(path.read_text(encoding="utf-8")) for path in files}
    said = "\n".join(f"    {line}" for line in (done.stdout + done.stderr).splitlines()[-SHOWN_LINES:])
    return written, said, done.returncode


def make_result(scenario: str, written: Sequence[Check], is_passed: bool, said: str) -> Result:
    """The result of a scenario; without a check, and with one that failed, it has failed."""
    checks = [check for check in written if check["status"] in ("SUCCESS", "FAILURE", "WARNING")]
    succeeded = sum(check["status"] == "SUCCESS" for check in checks)
    failures = [check for check in checks if check["status"] == "FAILURE"]
    outcome: Outcome = "passed" if is_passed and checks and not failures else "failed"
    reasons = "\n".join(f"    {check['id']}: {check.get('errorMessage', '')}" for check in failures)
    return Result(
        scenario, outcome, succeeded, len(checks), frozenset(check["id"] for check in failures), reasons or said
    )


def command(release: str, place: Path) -> list[str]:
    """A release of the suite under a Node that it runs on."""
    modules = place.resolve() / "node_modules"
    return [str(modules / "node/bin/node"), str(modules / f"conformance-{release}/dist/index.js")]


def read_expected(name: str) -> set[str]:
    """The scenarios of a file in the suite's own format for expected failures; without a file, none."""
    path = FOLDER / "expected_failures" / f"{name}.yml"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return set(re.findall(r"^  - ([^\s#]+)", text, flags=re.MULTILINE))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
