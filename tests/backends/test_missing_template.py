"""A GGUF without a chat template takes that of its family, and a base model is named as such, at every door."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from altered import with_template, without_template
from rkllm_chat.backends.llama.backend import LlamaBackend
from rkllm_chat.backends.llama.engine import describe_missing_template, read_model_names
from rkllm_chat.core import i18n
from stage import OpenScreen, Run

pytestmark = pytest.mark.model
CONTINUES = "has no chat template; it will continue texts, not answer."
BUILT_IN = 'has no chat template; the built-in template "{}" is used.'

# Name of the file -> what is said of it.
NAMES = {
    "gemma-3-270m.gguf": CONTINUES,
    "gemma-3-270m-it.gguf": BUILT_IN.format("gemma"),
    "Llama-3.2-1B-Instruct.gguf": BUILT_IN.format("llama3"),
    "Qwen3-0.6B-Base.gguf": CONTINUES,
    "Qwen3-0.6B.gguf": BUILT_IN.format("chatml"),
    "harbour.gguf": CONTINUES,
    "harbour-instruct.gguf": BUILT_IN.format("chatml"),
}
SPOKEN = ("gemma-3-270m.gguf", "Llama-3.2-1B-Instruct.gguf")
"""One name for each sentence."""


@pytest.fixture
def put_model(shipped_model: Path, folder: Path) -> Callable[[str], str]:
    """Writes the shipped model without its template and name."""

    def put(name: str) -> str:
        content = without_template(shipped_model.read_bytes()).replace(b"tiny-tools", b"some-thing")
        (folder / name).write_bytes(content)
        return name

    return put


def test_what_is_said_of_a_model_without_a_template_follows_from_its_name() -> None:
    metadata = {"general.name": "some-thing", "general.architecture": "qwen3"}
    for name, said in NAMES.items():
        sentence = describe_missing_template(name, read_model_names(Path(name), metadata))
        assert i18n.load()(sentence.key, **sentence.values) == f"{name} {said}"


def test_a_script_is_told_on_standard_error_and_the_doctor_says_the_same(
    put_model: Callable[[str], str], program: Run
) -> None:
    for name in SPOKEN:
        report = json.loads(program("doctor", "--json", "--model", put_model(name), code=None).stdout)["result"]
        reported = [line["value"] for line in report["lines"] if line["name"] == "template"]
        done = program("--no-servers", "--model", name, "-p", "Hello!", "--max-tokens", "4")
        said = [line for line in done.stderr.splitlines() if "template" in line]
        assert reported == said == [f"{name} {NAMES[name]}"]


@pytest.mark.parametrize("source", ["{% if messages %}", "{{ messages | nosuchfilter }}", "{{ nosuchfunction() }}"])
def test_a_template_that_does_not_compile_is_replaced_by_that_of_the_family(
    source: str, open_llama: Callable[..., LlamaBackend]
) -> None:
    (notice,) = open_llama(512, source).load_notices
    assert (notice.key, notice.values["template"]) == ("chat.bad_template", "chatml")


def test_a_template_that_is_replaced_is_said_by_a_script_and_the_doctor(
    shipped_model: Path, program: Run, folder: Path
) -> None:
    model = folder / "harbour-instruct.gguf"
    model.write_bytes(with_template(shipped_model.read_bytes(), "{% if messages %}"))
    done = program("--no-servers", "--model", model.name, "-p", "Hello!", "--max-tokens", "4")
    said = [line for line in done.stderr.splitlines() if "template" in line]
    assert len(said) == 1 and said[0].startswith(f"{model.name}: The model's chat template ")
    assert said[0].endswith(' The built-in template "chatml" is used.')
    assert done.stdout.strip()
    report = json.loads(program("doctor", "--json", "--model", model.name, code=None).stdout)["result"]
    assert [line["value"] for line in report["lines"] if line["name"] == "template"] == said


def test_nothing_is_said_of_a_model_with_a_template(shipped_model: Path, program: Run) -> None:
    done = program("--no-servers", "--model", str(shipped_model), "-p", "Hello!", "--max-tokens", "4")
    assert "template" not in done.stderr
    assert "template" not in program("doctor", "--model", str(shipped_model), code=None).stdout


def test_the_chat_says_it_when_the_model_is_loaded(put_model: Callable[[str], str], open_screen: OpenScreen) -> None:
    screen = open_screen("--no-servers", "--model", put_model("gemma-3-270m.gguf"))
    screen.wait_for("it will continue texts, not answer.")
    screen.wait_for_prompt()
    screen.leave()
