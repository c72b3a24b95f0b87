"""`doctor --tools`: what a model can do with tools, and how it is asked from then on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rkllm_chat.cli.doctor.tool_probes import CONVERSATIONS, PROBES


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.timeout(180)
def test_a_model_is_tried_and_the_better_profile_remembered(program: Callable[..., Any], folder: Path) -> None:
    done = program("doctor", "--tools", "--json", "--model", "tiny-tools")
    lines = {line["name"]: line["value"] for line in json.loads(done.stdout)["result"]["lines"]}
    assert lines.keys() == {"profile tiny-tools", "profile default", "conversations", "prompt profile"}
    held, _, failed = lines["conversations"].partition(" of 5; not: ")
    assert failed and int(held) == len(CONVERSATIONS) - len(failed.split("; "))
    assert {*failed.split("; ")} <= {conversation.name for conversation in CONVERSATIONS}
    assert "leaves tools alone: " in lines["profile tiny-tools"] and "of 6" in lines["profile tiny-tools"]
    assert done.stderr.count("of 18") == 2 * len(PROBES)
    measured = json.loads((folder.parent / "home/.local/state/rkllm-chat/measured.json").read_text(encoding="utf-8"))
    remembered = [value for key, value in measured.items() if key.startswith("profile ")]
    assert [f"{value} from now on" for value in remembered] == [lines["prompt profile"]]


def test_a_model_that_cannot_be_loaded_is_a_finding(program: Callable[..., Any], folder: Path) -> None:
    (folder / "bad.gguf").write_bytes(b"GGUF")
    done = program("doctor", "--tools", "--model", "bad.gguf", code=1)
    assert done.stdout.startswith("wrong tools") and "bad.gguf" in done.stdout
