"""The run over the conformance suites finds what is wrong, and its lists of expected failures do not grow."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from .run import FOLDER, SUITES, main, read_expected

# How many failures each list may hold; the numbers follow the lists down.
MOST = {
    "0.1.16": 1,
    "2025-03-26": 0,
    "2025-11-25": 0,
    "2026-07-28": 0,
    "extensions": 3,
    "server-0.1.16": 23,
    "server-2025-11-25": 23,
    "server-2026-07-28": 27,
    "server-extensions": 10,
}

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
mkdir "$last/one" && cp "{folder}/checks.json" "$last/one/" && exit $(cat "{folder}/code")
"""


@pytest.mark.parametrize(
    ("scenario", "statuses", "code", "said"),
    [
        ("greeting", ["SUCCESS", "INFO"], 0, "1 of 1 passed (the SDK alone: 3), 0 failed, 0 checked nothing, 0 unexp"),
        ("greeting", ["SUCCESS", "FAILURE"], 1, "UNEXPECTED: greeting has failed"),
        ("greeting", ["INFO"], 0, "UNEXPECTED: greeting has failed"),
        ("auth/dpop", ["FAILURE"], 1, "0 of 1 passed (the SDK alone: 3), 1 failed, 0 checked nothing, 0 unexpected"),
        ("auth/dpop", ["SUCCESS"], 0, "UNEXPECTED: auth/dpop has passed"),
    ],
    ids=["passes", "fails", "checks nothing", "fails as expected", "passes unexpectedly"],
)
def test_a_result_that_is_not_expected_is_told_and_fails_the_run(
    scenario: str,
    statuses: list[str],
    code: int,
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_release(tmp_path, {f"check {number}": status for number, status in enumerate(statuses)}, code)
    assert main([str(tmp_path), "extensions", "--scenario", scenario]) == ("UNEXPECTED" in said)
    assert said in capsys.readouterr().out


def write_release(folder: Path, checks: Mapping[str, str], code: int) -> None:
    """A release of the suite whose scenarios end with these checks (name -> status) and this exit code."""
    node = folder / "node_modules/node/bin/node"
    node.parent.mkdir(parents=True, exist_ok=True)
    node.write_text(NODE.replace("{folder}", str(folder)), encoding="utf-8")
    node.chmod(0o755)
    written = [{"id": name, "status": status} for name, status in checks.items()]
    (folder / "checks.json").write_text(json.dumps(written), encoding="utf-8")
    (folder / "code").write_text(str(code), encoding="utf-8")


@pytest.mark.parametrize(
    ("failing", "unexpected"),
    [({"one", "two"}, False), ({"one"}, True), ({"one", "two", "three"}, True), (set(), True)],
    ids=["as expected", "one passes", "one more fails", "all pass"],
)
def test_of_a_scenario_the_checks_that_are_named_fail_and_no_others(
    failing: set[str], unexpected: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "server-2026-07-28"
    lines = {line.partition(":")[2] for line in read_expected(name) if line.startswith("server-stateless:")}
    named = dict(zip(("one", "two"), sorted(lines), strict=True))
    checks = {named.get(one, one): "FAILURE" if one in failing else "SUCCESS" for one in ("one", "two", "three")}
    write_release(tmp_path, checks, 1 if failing else 0)
    assert main([str(tmp_path), name, "--scenario", "server-stateless"]) == unexpected
    assert ("UNEXPECTED: server-stateless has " in capsys.readouterr().out) == unexpected


@pytest.mark.parametrize(("name", "scenario"), [("extensions", "auth/dpop"), ("server-2026-07-28", "tools-call-image")])
def test_a_message_that_breaks_the_schema_is_never_expected(name: str, scenario: str, tmp_path: Path) -> None:
    write_release(tmp_path, {"wire-schema-valid": "FAILURE"}, 1)
    assert main([str(tmp_path), name, "--scenario", scenario]) == 1


def test_a_line_for_a_scenario_that_does_not_exist_fails_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = tmp_path / "node_modules/node/bin/node"
    node.parent.mkdir(parents=True)
    node.write_text("#!/bin/sh\nprintf 'Client scenarios\\n  - sep-2640-client-x [extension]\\n'\n", encoding="utf-8")
    node.chmod(0o755)
    assert main([str(tmp_path), "extensions"]) == 1
    assert "UNEXPECTED: there is no scenario auth/dpop\n" in capsys.readouterr().out


@pytest.mark.parametrize("name", [name for name, suite in SUITES.items() if suite.side == "client"])
def test_the_expected_failures_of_the_client_are_of_oauth_alone(name: str) -> None:
    assert all(scenario.startswith("auth/") for scenario in read_expected(name))


def test_of_the_other_servers_nothing_is_asked_that_only_a_server_of_the_suite_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checks = {line.partition(":")[2]: "FAILURE" for line in read_expected("server-2026-07-28") if ":" in line}
    write_release(tmp_path, checks, 1)  # it lists server-stateless, and tools-call-image, which the board fails
    assert main([str(tmp_path), "llm-2026-07-28"]) == 0
    said = capsys.readouterr().out
    assert "server-stateless" in said and "tools-call-image" not in said
    assert "0 of 1 passed (the SDK alone: 15), 1 failed, 0 checked nothing, 0 unexpected" in said
    write_release(tmp_path, {}, 0)
    assert main([str(tmp_path), "llm-2026-07-28"]) == 1


@pytest.mark.parametrize("name", [name for name, suite in SUITES.items() if not suite.like])
def test_the_expected_failures_do_not_grow_and_have_their_reasons(name: str) -> None:
    assert len(read_expected(name)) <= MOST[name]
    if not MOST[name]:
        assert not (FOLDER / "expected_failures" / f"{name}.yml").exists()
        return
    lines = (FOLDER / "expected_failures" / f"{name}.yml").read_text(encoding="utf-8").splitlines()
    _, first, *_ = [line for line in lines if not line.startswith("# ")]
    assert first.startswith("  # ")
