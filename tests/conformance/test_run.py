"""The run over the conformance suites finds what is wrong, and its lists of expected failures do not grow."""

from __future__ import annotations

from pathlib import Path

import pytest

from .run import SUITES, main, read_expected

# How many failures each list may hold; the numbers follow the lists down.
MOST = {"0.1.16": 21, "2025-03-26": 2, "2025-11-25": 14, "2026-07-28": 25, "extensions": 6}

NODE = """#!/bin/sh
# stands for node with a release of the suite: it lists two scenarios, and gives each the checks that a file holds
if [ "$2" = list ]; then
    printf 'Client scenarios (test against a client):\\n'
    printf '  - auth/dpop [extension]\\n  - greeting [extension,2026-07-28]\\n'
    exit
fi
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
    node = tmp_path / "node_modules/node/bin/node"
    node.parent.mkdir(parents=True)
    node.write_text(NODE.replace("{folder}", str(tmp_path)), encoding="utf-8")
    node.chmod(0o755)
    checks = ", ".join(f'{{"status": "{status}"}}' for status in statuses)
    (tmp_path / "checks.json").write_text(f"[{checks}]", encoding="utf-8")
    (tmp_path / "code").write_text(str(code), encoding="utf-8")
    assert main([str(tmp_path), "extensions", "--scenario", scenario]) == ("UNEXPECTED" in said)
    assert said in capsys.readouterr().out


def test_a_line_for_a_scenario_that_does_not_exist_fails_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = tmp_path / "node_modules/node/bin/node"
    node.parent.mkdir(parents=True)
    node.write_text("#!/bin/sh\nprintf 'Client scenarios\\n  - sep-2640-client-x [extension]\\n'\n", encoding="utf-8")
    node.chmod(0o755)
    assert main([str(tmp_path), "extensions"]) == 1
    assert "UNEXPECTED: there is no scenario auth/dpop\n" in capsys.readouterr().out


@pytest.mark.parametrize("name", SUITES)
def test_the_expected_failures_are_of_oauth_alone_and_do_not_grow(name: str) -> None:
    expected = read_expected(name)
    assert all(scenario.startswith("auth/") for scenario in expected)
    assert len(expected) <= MOST[name]
