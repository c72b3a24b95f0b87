"""`rkllm-chat models pull` from a local server that speaks the protocol of the Hugging Face Hub."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.hub import COMMIT, REPOSITORY, Hub, serve_hub
from fork_server import start
from rkllm_chat.backends.shared.model_files import find_projector
from rkllm_chat.tui.tried_models import list_tried
from shell import wait_until
from stage import PROGRAM, Run, Screen

BLOCK = 10 * 1024 * 1024
"""What huggingface_hub writes at once."""
MODEL, GGUF = "tiny_w8a8_RK3588.rkllm", "q/tiny.gguf"
FILES = {
    MODEL: b"RKLLM" + random.Random(0).randbytes(BLOCK + BLOCK // 2),
    GGUF: b"GGUF" + bytes(100),
    "mmproj-tiny.gguf": b"GGUF",
    "tokenizer_config.json": b'{"bos_token": "<s>"}',
    "chat_template.jinja": b"{{ messages }}",
    "README.md": b"# tiny",
}


@pytest.fixture
def hub(environment: dict[str, str]) -> Iterator[Hub]:
    """The server, which the program uses."""
    with serve_hub(Hub(FILES)) as served:
        environment |= {"HF_ENDPOINT": served.url, "NO_PROXY": "127.0.0.1"}
        yield served


@pytest.fixture
def place(environment: dict[str, str]) -> Path:
    """The folder of the repository."""
    return Path(environment["HOME"], ".local/share/rkllm-chat/models", REPOSITORY)


@pytest.mark.slow
def test_a_model_for_the_npu_comes_with_its_templates(program: Run, hub: Hub, place: Path) -> None:
    done = program("models", "pull", f"{REPOSITORY}:{MODEL}")
    assert f"{REPOSITORY}: {MODEL}, 15.7 MB; license: apache-2.0\n{place / MODEL}\n" in done.stdout
    names = (MODEL, "tokenizer_config.json", "chat_template.jinja")
    assert {path.name: path.read_bytes() for path in place.iterdir()} == {name: FILES[name] for name in names}
    rows = {row["name"]: row for row in json.loads(program("models", "--json").stdout)["result"]["models"]}
    assert (rows[MODEL]["path"], rows[MODEL]["template"]) == (str(place / MODEL), "chat_template.jinja")
    requests = len(hub.ranges)
    (place / "chat_template.jinja").write_text("mine", encoding="utf-8")
    program("models", "pull", f"{REPOSITORY}:{MODEL}")
    assert len(hub.ranges) == requests and (place / "chat_template.jinja").read_text(encoding="utf-8") == "mine"


def test_without_a_model_those_of_the_table_are_listed_and_their_names_are_known(program: Run) -> None:
    listed = program("models", "pull").stdout
    assert (
        "qwen2.5-coder:0.5b   491 MB, 760 MB of memory  GGUF, license: Apache-2.0\n    tools: first call right in"
        in listed
    )
    assert "rkllm-chat models pull lists names" in program("models", "pull", "nosuch:1b", code=2).stderr


def test_a_download_that_fails_says_where_a_model_may_be_copied_and_breaks_no_word_at_a_terminal(
    open_screen: Callable[..., Screen],
) -> None:
    away = {"HF_ENDPOINT": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1"}
    screen = open_screen("models", "pull", "qwen3:0.6b", size=(60, 12), **away)
    assert screen.wait_for_end() == 5
    message = " ".join(screen.lines())
    assert (
        "http://127.0.0.1:9, which HF_ENDPOINT names, cannot be reached from here." in message
        and ".local/share/rkllm-chat/models. Try" in message
    )
    assert "HF_ENDPOINT=https://...," in message.split(), "the terminal would break it"


@pytest.mark.slow
def test_a_row_of_the_list_of_models_is_downloaded_and_used(
    open_screen: Callable[..., Screen], environment: dict[str, str], shipped_model: Path
) -> None:
    repository, _, name = list_tried()[0]["source"].partition(":")
    with serve_hub(Hub({name: shipped_model.read_bytes()}, repository)) as hub:
        screen = open_screen("--no-servers", size=(110, 30), HF_ENDPOINT=hub.url, NO_PROXY="127.0.0.1")
        screen.say("", "/model gets a real one")
        screen.say("/model\r", "qwen2.5-coder:0.5b", "download (GGUF, Apache-2.0)")
        screen.say("coder:0.5b\r", "license: apache-2.0", f"Model: {name} (2048 tokens of context)")
        screen.wait_for_prompt()
        assert (Path(environment["HOME"], ".local/share/rkllm-chat/models", repository, name)).exists()
        screen.say("/model\r", "qwen2.5-coder:1.5b")
        assert not any("qwen2.5-coder:0.5b" in line for line in screen.lines()[-12:])  # it is there now
        screen.say("coder:1.5b\r", "There is no repository Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF")
        screen.wait_for_prompt()
        screen.enter("/model tiny-tools", "Model: tiny-tools.gguf (2048")


@pytest.mark.slow
def test_a_killed_download_leaves_no_model_and_is_continued(
    program: Run, hub: Hub, place: Path, environment: dict[str, str], folder: Path
) -> None:
    hub.stalls_at = BLOCK + 1000
    command = [*PROGRAM, "models", "pull", f"{REPOSITORY}:{MODEL}"]
    process = start(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, cwd=folder
    )
    with process:
        try:
            wait_until(lambda: any(path.stat().st_size >= BLOCK for path in place.glob(".*.part")))
            second = program("models", "pull", f"{REPOSITORY}:{MODEL}", code=5)
            assert "another process" in second.stderr
        finally:
            process.kill()
    assert not (place / MODEL).exists()
    hub.stalls_at = None
    program("models", "pull", f"{REPOSITORY}:{MODEL}")
    assert (place / MODEL).read_bytes() == FILES[MODEL]
    assert [asked for name, asked in hub.ranges if name == MODEL] == ["", f"bytes={BLOCK}-"]
    assert not list(place.glob(".*"))


@pytest.mark.slow
def test_a_wrong_checksum_leaves_no_model(program: Run, hub: Hub, place: Path) -> None:
    hub.checksums[GGUF] = "0" * 64
    done = program("models", "pull", f"{REPOSITORY}:{GGUF}", code=5)
    assert "The checksum of tiny.gguf is wrong" in done.stderr and not list(place.iterdir())
    hub.checksums.clear()
    program("models", "pull", f"{REPOSITORY}:tiny.gguf")
    assert [path.name for path in place.iterdir()] == ["tiny.gguf"]
    hub.files[GGUF] = b"GGUF of a later day"
    done = program("models", "pull", f"{REPOSITORY}:{GGUF}", code=5)
    assert "is another file" in done.stderr and (place / "tiny.gguf").read_bytes() == FILES[GGUF]


def tell_lfs(sha256: object, size: int) -> dict[str, Any]:
    """What a hub tells of a large file."""
    return {"size": size, "lfs": {"sha256": sha256, "size": size, "pointerSize": 130}}


RIGHT = hashlib.sha256(FILES[GGUF]).hexdigest()
LIES: dict[str, tuple[dict[str, Any], str]] = {
    "fewer bytes": (tell_lfs(RIGHT, 50), "sends more than the 50 bytes of tiny.gguf"),
    "more bytes": (tell_lfs(RIGHT, 900), "should be of size 900"),
    "no bytes": (tell_lfs(RIGHT, -1), "has no model"),
    "a petabyte": (tell_lfs(RIGHT, 2**50), "GB more, and"),
    "a path as checksum": (tell_lfs("/../../../../x", 104), "has no model"),
    "a number as checksum": (tell_lfs(7, 104), "does not tell what"),
    "no text as name": ({"rfilename": ["x.gguf"]}, "does not tell what"),
    "another checksum": (tell_lfs("0" * 64, 104), "checksum of tiny.gguf is wrong"),
}


@pytest.mark.slow
@pytest.mark.parametrize("lie", LIES)
def test_a_hub_that_lies_is_told_and_leaves_nothing_that_looks_whole(
    lie: str, program: Run, hub: Hub, place: Path
) -> None:
    hub.told[GGUF], expected = LIES[lie]
    done = program("models", "pull", f"{REPOSITORY}:{GGUF}", code=None)
    assert expected in done.stderr and done.returncode in (2, 5, 6) and "Traceback" not in done.stderr
    assert not [path for path in place.glob("*") if not path.name.startswith(".")]
    hub.told.clear()
    program("models", "pull", f"{REPOSITORY}:{GGUF}")
    assert (place / "tiny.gguf").read_bytes() == FILES[GGUF]


@pytest.mark.slow
@pytest.mark.parametrize(
    "target", ["/{path}", "ftp://127.0.0.1/x", "http://127.0.0.1:1/x", "file:///etc/passwd", "//["]
)
def test_a_hub_that_redirects_to_nowhere_is_told(target: str, program: Run, hub: Hub, place: Path) -> None:
    hub.redirects[GGUF] = target.format(path=f"{REPOSITORY}/resolve/{COMMIT}/{GGUF}")
    done = program("models", "pull", f"{REPOSITORY}:{GGUF}", code=5)
    assert "cannot be downloaded" in done.stderr and "Traceback" not in done.stderr
    assert not (place / "tiny.gguf").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("hub")
def test_the_projector_of_a_vision_model_is_offered_and_downloaded_by_its_name(program: Run, place: Path) -> None:
    done = program("models", "pull", f"{REPOSITORY}:tiny.gguf")
    assert f"For pictures, 4 bytes more: rkllm-chat models pull {REPOSITORY}:mmproj-tiny.gguf\n" in done.stdout
    done = program("models", "pull", f"{REPOSITORY}:mmproj-tiny.gguf")
    assert "For pictures" not in done.stdout
    assert sorted(path.name for path in place.iterdir()) == ["mmproj-tiny.gguf", "tiny.gguf"]
    assert find_projector(place / "tiny.gguf", "") == place / "mmproj-tiny.gguf"


WRONG: dict[str, tuple[str, int, str]] = {
    "several": (REPOSITORY, 2, f"has 2 models. Write {REPOSITORY}:FILE with one of: {MODEL} (15.7 MB), {GGUF}"),
    "unknown file": (f"{REPOSITORY}:x.gguf", 2, f'has no model "x.gguf". Write {REPOSITORY}:FILE with one of: {MODEL}'),
    "missing": ("maker/nothing", 5, "There is no repository maker/nothing, or it is private."),
    "no repository": ("../../etc", 2, "Write OWNER/NAME"),
}


@pytest.mark.parametrize("row", WRONG)
def test_what_cannot_be_downloaded_is_told(row: str, program: Run, hub: Hub, place: Path) -> None:
    reference, code, message = WRONG[row]
    assert message in program("models", "pull", reference, code=code).stderr
    assert not place.exists() and not hub.ranges


def test_a_license_that_must_be_accepted_and_a_hub_that_is_away_are_told(
    program: Run, hub: Hub, environment: dict[str, Any]
) -> None:
    hub.is_gated = True
    assert "HF_TOKEN" in program("models", "pull", REPOSITORY, code=4).stderr
    environment["HF_ENDPOINT"] = "http://me:secret@127.0.0.1:1"
    error = program("models", "pull", REPOSITORY, code=5).stderr
    assert "http://127.0.0.1:1, which HF_ENDPOINT names, cannot be reached" in error and "secret" not in error
    environment["HF_ENDPOINT"] = "127.0.0.1:1"
    error = program("models", "pull", REPOSITORY, code=5).stderr
    assert "127.0.0.1:1, which HF_ENDPOINT names, is no address of the web. Write HF_ENDPOINT=https://" in error
