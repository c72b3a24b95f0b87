"""The run over the conformance suites finds what is wrong, and its lists of expected failures do not grow."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from .run import FOLDER, SCHEMA, SUITES, Result, main, read_expected

# How many failures each list may hold, none where nothing is said; the numbers follow the lists down.
SUBJECTS = {"subject-0.1.16": 1, "subject-2025-11-25": 1}
SERVERS = {"server-0.1.16": 23, "server-2025-11-25": 23, "server-2026-07-28": 27, "server-extensions": 10}
MOST = {"0.1.16": 1, "extensions": 3, **SERVERS, **SUBJECTS}

NODE = """#!/bin/sh
# stands for node with a release of the suite: it lists two scenarios, and gives each the checks that a file holds
if [ "$2" = list ]; then
    printf 'Server scenarios (test against a server):\\n'
    printf '  - server-stateless [2026-07-28]\\n  - tools-call-image [2026-07-28]\\n\\n'
    printf 'Client scenarios (test against a client):\\n'
    printf '  - auth/dpop [extension]\\n  - greeting [extension,2026-07-28]\\n'
    exit
fi
case "$2 $4" in
    "client "*/client.py | "server http://127.0.0.1:"*/mcp) ;;
    *) exit 3 ;;
esac
for last; do :; done
for one in server-server-stateless server-tools-call-image; do
    mkdir "$last/$one-2026-11-26T23-44-16-812Z" && cp "{folder}/checks.json" "$last/$one"-*/ || exit 3
    [ "$2" = server ] || break
done
exit $(cat "{folder}/code")
"""


@pytest.mark.parametrize(
    ("scenario", "statuses", "code", "said"),
    [
        ("greeting", ["SUCCESS", "INFO"], 0, "1 of 1 passed"),
        ("greeting", ["INFO"], 0, "UNEXPECTED: greeting has failed"),
        ("auth/dpop", ["FAILURE"], 1, "1 failed, 0 unexpected"),
        ("auth/dpop", ["SUCCESS"], 0, "UNEXPECTED: auth/dpop has passed"),
    ],
    ids=["passes", "checks nothing", "fails as expected", "passes unexpectedly"],
)
def test_an_unexpected_result_fails_the_run(
    scenario: str, statuses: list[str], code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_release(tmp_path, {f"check {number}": status for number, status in enumerate(statuses)}, code)
    assert main([str(tmp_path), "extensions", "--scenario", scenario]) == ("UNEXPECTED" in said)
    assert said in capsys.readouterr().out


def write_release(folder: Path, checks: Mapping[str, str], code: int, program: str = NODE) -> None:
    """A release of the suite whose scenarios end with these checks (name -> status) and this exit code."""
    node = folder / "node_modules/node/bin/node"
    node.parent.mkdir(parents=True, exist_ok=True)
    node.write_text(program.replace("{folder}", str(folder)), encoding="utf-8")
    node.chmod(0o755)
    written = [{"id": name, "status": status} for name, status in checks.items()]
    (folder / "checks.json").write_text(json.dumps(written), encoding="utf-8")
    (folder / "code").write_text(str(code), encoding="utf-8")


@pytest.mark.parametrize(
    ("failed", "expected", "is_expected"),
    [
        ({"one", "two"}, {"it:one", "it:two"}, True),
        ({"one"}, {"it:one", "it:two"}, False),
        ({"one", "two", "three"}, {"it:one", "it:two"}, False),
        (set(), {"it:one"}, False),
        ({"one"}, {"it"}, True),
        ({"one"}, {"another"}, False),
        ({SCHEMA}, {"it"}, False),
    ],
    ids=["as expected", "one passes", "one more fails", "all pass", "any check", "not named", "breaks the schema"],
)
def test_the_checks_that_fail_are_those_that_are_named(failed: set[str], expected: set[str], is_expected: bool) -> None:
    result = Result("it", "failed" if failed else "passed", 1, 3, frozenset(failed), "")
    assert result.is_expected(expected) == is_expected


def test_a_line_for_a_scenario_that_does_not_exist_fails_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_release(tmp_path, {}, 0, "#!/bin/sh\nprintf 'Client scenarios\\n  - sep-2640-client-x [extension]\\n'\n")
    assert main([str(tmp_path), "extensions"]) == 1
    assert "UNEXPECTED: there is no scenario auth/dpop\n" in capsys.readouterr().out


@pytest.mark.slow
def test_a_server_is_not_asked_for_what_only_a_server_of_the_suite_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checks = {line.partition(":")[2]: "FAILURE" for line in read_expected("server-2026-07-28") if ":" in line}
    write_release(tmp_path, checks, 1)  # it lists server-stateless, and tools-call-image, which the board fails
    assert main([str(tmp_path), "llm-2026-07-28"]) == 0
    said = capsys.readouterr().out
    assert "server-stateless" in said and "tools-call-image" not in said
    assert "0 of 1 passed" in said and "1 failed, 0 unexpected" in said


@pytest.mark.parametrize("name", [name for name, suite in SUITES.items() if not suite.like])
def test_the_expected_failures_do_not_grow_and_have_their_reasons(name: str) -> None:
    expected = read_expected(name)
    assert len(expected) <= MOST.get(name, 0)
    assert SUITES[name].side == "server" or all(scenario.startswith("auth/") for scenario in expected)
    if name not in MOST:
        assert not (FOLDER / "expected_failures" / f"{name}.yml").exists()
        return
    lines = (FOLDER / "expected_failures" / f"{name}.yml").read_text(encoding="utf-8").splitlines()
    _, first, *_ = [line for line in lines if not line.startswith("# ")]
    assert first.startswith("  # ")
