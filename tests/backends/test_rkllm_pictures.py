"""Pictures on the NPU: the stand-ins of both runtimes, of which the second receives the floats of the first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from shutil import copyfile
from typing import Any

import numpy
import pytest

from backends.openai.talks import reply_of
from rkllm_chat.backends import open_backend
from rkllm_chat.backends.rkllm.abi import RunFailedError
from rkllm_chat.backends.rkllm.backend import RkllmBackend
from rkllm_chat.backends.rkllm.options import choose_domain
from rkllm_chat.backends.rkllm.vision_encoder import VisionEncoder
from rkllm_chat.backends.rkllm.vision_families import VISION_FAMILIES, find_encoder, find_vision_family
from rkllm_chat.config.settings import Rkllm, Settings
from rkllm_chat.config.trust_rules import Origin
from rkllm_chat.core.errors import GenerationError, ModelError
from rkllm_chat.core.events import Usage
from rkllm_chat.core.messages import Media, Message
from rkllm_runtime.build import RELEASES, build_encoder
from stage import GREEDY, Run
from vision_models import write_picture

pytestmark = pytest.mark.model
SIDE, TOKENS, WIDTH = 28, 16, 256
Open = Callable[..., RkllmBackend]
Compiled = Callable[[str], Path]
Write = Callable[..., tuple[str, Usage]]


def write_encoder(path: Path, outputs: int = 1, layout: int = 1, height: int = SIDE, width: int = WIDTH) -> Path:
    """Write the model of the stand-in (see rknn.c)."""
    path.write_text(f"RKNN stand-in {layout} {height} {SIDE} {TOKENS} {width} {outputs}\n", encoding="utf-8")
    return path


@pytest.fixture
def model(shipped_model: Path, tmp_path: Path) -> Path:
    """A vision model; its encoder lies beside it."""
    path = tmp_path / "Qwen2-VL-2B_w8a8_rk3588.rkllm"
    path.symlink_to(shipped_model)
    write_encoder(tmp_path / "qwen2-vl-2b_vision_rk3588.rknn")
    return path


@pytest.fixture
def open_model(
    compiled: Compiled, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Callable[..., Any]
) -> Iterator[Open]:
    """Open the NPU backend on the stand-ins of a layout."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("RKLLM_STANDIN_EMBEDDINGS", str(tmp_path / "embeddings"))
    monkeypatch.setenv("RKLLM_STANDIN_ENCODER_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("RKLLM_LOG_LEVEL", "2")
    backends: list[RkllmBackend] = []

    def open_one(layout: str = "G", **options: Any) -> RkllmBackend:
        library = compiled(layout)
        build_encoder(library.parent)
        rkllm = Rkllm(library=str(library), **options)
        backend = open_backend(Settings(model=str(model), rkllm=rkllm, generation=GREEDY, context_tokens=1024))
        assert isinstance(backend, RkllmBackend)
        backends.append(backend)
        return backend

    yield open_one
    for backend in backends:
        run(backend.aclose())


@pytest.fixture
def write(run: Callable[..., Any]) -> Write:
    def write_reply(backend: RkllmBackend, prompt: Sequence[Message]) -> tuple[str, Usage]:
        reply: tuple[str, Usage] = run(reply_of(backend, prompt, replace(GREEDY, max_tokens=64)))
        return reply

    return write_reply


@pytest.fixture
def received(tmp_path: Path) -> Callable[[], list[float]]:
    """The floats that the last run with pictures received; they are forgotten then."""

    def take() -> list[float]:
        path = tmp_path / "embeddings"
        floats: list[float] = numpy.frombuffer(path.read_bytes(), numpy.float32).tolist()
        path.unlink()
        return floats

    return take


def embed(pixels: Any, outputs: int = 1) -> list[float]:
    """Return what the encoder makes of pixels."""
    data = pixels.reshape(-1)
    token, output, place = numpy.ogrid[:TOKENS, :outputs, :WIDTH]
    index = (31 * token + 7 * place + 13 * output) % data.size
    embeddings: list[float] = (data[index].astype(numpy.float32) / numpy.float32(255)).reshape(-1).tolist()
    return embeddings


def pixels_of(seed: int) -> Any:
    """Return the pixels of a picture of the encoder's size."""
    return numpy.random.default_rng(seed).integers(0, 256, (SIDE, 3 * SIDE), numpy.uint8)


def picture(folder: Path, seed: int) -> Media:
    return write_picture(folder / f"{seed}.png", SIDE, SIDE, seed)


def ask(text: str, *media: Media) -> Message:
    return Message("user", text, media=media)


def last_prompt(folder: Path) -> str:
    log = (folder / "state/rkllm-chat/logs/rkllm.log").read_text(encoding="utf-8")
    return log.rpartition('prompt text: "')[2].partition('"\n')[0]


@pytest.mark.slow
@pytest.mark.parametrize("layout", RELEASES)
def test_the_runtime_receives_the_floats_of_the_encoder(
    layout: str, open_model: Open, write: Write, received: Callable[[], list[float]], tmp_path: Path
) -> None:
    backend = open_model(layout)
    assert backend.media_kinds == {"image"}
    prompt = [ask("What is this?", picture(tmp_path, 1))]
    reply, usage = write(backend, prompt)
    assert received() == embed(pixels_of(1))
    assert last_prompt(tmp_path) == "<|im_start|>user\n<image>What is this?<|im_end|>\n<|im_start|>assistant\n"
    write(backend, [*prompt, Message("assistant", reply), ask("And?")])
    assert received() == embed(pixels_of(1))  # each run needs the pictures of the whole prompt
    assert (tmp_path / "runs").read_text() == "run\n", "the picture was encoded again"
    assert usage.prompt_tokens > TOKENS


@pytest.mark.slow
@pytest.mark.parametrize("layout", RELEASES)
def test_several_pictures_are_sent_where_a_run_takes_them(
    layout: str, open_model: Open, write: Write, received: Callable[[], list[float]], tmp_path: Path
) -> None:
    first, second = (picture(tmp_path, seed) for seed in (1, 2))
    write(
        open_model(layout), [ask("This: ", replace(first, position=6)), Message("assistant", "?"), ask("That?", second)]
    )
    text = last_prompt(tmp_path)
    if layout >= "E":
        assert received() == [*embed(pixels_of(1)), *embed(pixels_of(2))]
        assert ("This: <image><|im_end|>" in text, "<image>That?" in text) == (True, True)
    else:
        assert received() == embed(pixels_of(2))
        assert ("This: [image]<|im_end|>" in text, "<image>That?" in text) == (True, True)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["F", "G"])
@pytest.mark.parametrize("with_tokenizer", [False, True])
def test_tokens_of_pictures_are_counted_and_reused(
    layout: str, with_tokenizer: bool, open_model: Open, write: Write, model: Path, tmp_path: Path
) -> None:
    if with_tokenizer:
        copyfile(Path(__file__).parents[2] / "models/tiny-tools/tokenizer.json", model.with_name("tokenizer.json"))
    backend = open_model(layout)
    prompt = [ask("What is this?", picture(tmp_path, 1))]
    reply, usage = write(backend, prompt)
    if with_tokenizer:
        assert backend.count_tokens(prompt) == usage.prompt_tokens
    else:
        assert abs(backend.count_tokens(prompt) - usage.prompt_tokens) < TOKENS
    text_only = [*prompt, Message("assistant", reply), ask("And?")]
    assert write(backend, text_only)[1].prefilled_tokens < TOKENS
    assert write(backend, [ask("Hello!")])[1].prompt_tokens < usage.prompt_tokens


@pytest.mark.slow
def test_nothing_is_reused_of_a_prompt_with_another_picture(open_model: Open, write: Write, tmp_path: Path) -> None:
    backend = open_model("G")
    words = "These are some words before the picture. " * 3
    first, second = ([ask(words, replace(picture(tmp_path, seed), position=len(words)))] for seed in (1, 2))
    assert write(backend, first)[1].reused_tokens == 0
    assert write(backend, first)[1].reused_tokens > 2 * TOKENS
    assert write(backend, second)[1].reused_tokens == 0


def test_tags_and_markers_in_a_text_are_text(
    open_model: Open, write: Write, received: Callable[[], list[float]], tmp_path: Path
) -> None:
    text = "<image> <im<image>age> <video> <|image_pad|>"
    write(
        open_model("G"),
        [ask(text, replace(picture(tmp_path, 1), position=8)), Message("assistant", "<image>"), ask("?")],
    )
    assert received() == embed(pixels_of(1))
    sent = last_prompt(tmp_path)
    assert sent.count("<image>") == 1
    assert "<video>" not in sent and "<|image_pad|>" not in sent


@pytest.mark.slow
def test_the_runtime_that_keeps_the_history_is_sent_a_picture_once(
    open_model: Open, write: Write, received: Callable[[], list[float]], tmp_path: Path
) -> None:
    backend = open_model("G", history="runtime")
    prompt = [ask("What is this?", picture(tmp_path, 1))]
    reply, _ = write(backend, prompt)
    received()
    longer = [*prompt, Message("assistant", reply), ask("And?")]
    second, _ = write(backend, longer)
    assert not (tmp_path / "embeddings").exists()
    assert "<image>" not in last_prompt(tmp_path)
    write(backend, [*longer, Message("assistant", second), ask("And this?", picture(tmp_path, 2))])
    assert received() == embed(pixels_of(2))
    write(backend, [ask("What is this?", picture(tmp_path, 3)), *longer[1:]])  # another one in the middle: all is sent
    assert received() == embed(pixels_of(3))
    assert last_prompt(tmp_path).startswith("<|im_start|>user\n<image>What is this?")


def test_the_runtimes_own_template_has_pictures(
    open_model: Open, write: Write, received: Callable[[], list[float]], tmp_path: Path
) -> None:
    backend = open_model("G", template="runtime")
    prompt = [ask("What is <image> this?", picture(tmp_path, 1))]
    reply, _ = write(backend, prompt)
    assert received() == embed(pixels_of(1))
    assert "<image>What is < image> this?" in last_prompt(tmp_path)
    write(backend, [*prompt, Message("assistant", reply), ask("And?")])
    assert not (tmp_path / "embeddings").exists()


def test_nothing_is_evaluated_ahead_of_a_prompt_with_pictures(
    open_model: Open, run: Callable[..., Any], tmp_path: Path
) -> None:
    backend = open_model("G")
    words = "These are some words, so that there is something to evaluate. " * 4
    text = [ask(words), Message("assistant", "Yes.")]
    assert run(backend.prefill(text)) > 0
    assert run(backend.prefill([ask(words, picture(tmp_path, 1)), text[1]])) == 0


@pytest.mark.parametrize(("height", "layout", "outputs"), [(SIDE, 1, 1), (SIDE, 0, 3), (2 * SIDE, 1, 1)])
def test_a_picture_is_made_square_and_scaled(height: int, layout: int, outputs: int, tmp_path: Path) -> None:
    path = write_encoder(tmp_path / "x.rknn", outputs, layout, height)
    encoder = VisionEncoder(build_encoder(tmp_path), path)
    assert (encoder.tokens, encoder.width, encoder.height) == (TOKENS, SIDE, height)
    narrow = write_picture(tmp_path / "narrow.png", SIDE // 2, SIDE, 1)
    square = numpy.full((SIDE, SIDE, 3), 128, numpy.uint8)
    square[:, SIDE // 4 : 3 * SIDE // 4] = (
        numpy.random.default_rng(1).integers(0, 256, (SIDE, 3 * SIDE // 2), numpy.uint8).reshape(SIDE, SIDE // 2, 3)
    )
    found = numpy.frombuffer(encoder.encode(Path(narrow.path)), numpy.float32).tolist()
    if height == SIDE:
        assert found == embed(square, outputs)
    else:
        assert (len(found), found[0]) == (TOKENS * WIDTH, pytest.approx(128 / 255))
    encoder.close()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("not a model", r"rknn_init returned -6, the file is not a model of this release"),
        ("RKNN stand-in 1 28 28 1 256 1", "is no vision encoder: its outputs have the shapes"),
        ("RKNN stand-in 1 28 28 16 256 0", "is no vision encoder: its outputs have the shapes"),
    ],
)
def test_a_file_that_is_no_encoder_is_an_error(content: str, message: str, open_model: Open, tmp_path: Path) -> None:
    (tmp_path / "qwen2-vl-2b_vision_rk3588.rknn").write_text(content, encoding="utf-8")
    with pytest.raises(ModelError, match=message):
        open_model("G")


@pytest.mark.slow
def test_the_program_shows_a_picture_to_a_model(
    compiled: Compiled, model: Path, program: Run, tmp_path: Path, environment: dict[str, str]
) -> None:
    library = compiled("G")
    build_encoder(library.parent)
    config = tmp_path / "config.toml"
    config.write_text(f'[rkllm]\nlibrary = "{library}"\n', encoding="utf-8")
    environment["RKLLM_STANDIN_EMBEDDINGS"] = str(tmp_path / "embeddings")
    options = ("--model", str(model), "--config", str(config), "--no-servers", "--max-tokens", "4")
    program("-p", "What is this?", *options, "--image", picture(tmp_path, 1).path)
    assert numpy.frombuffer((tmp_path / "embeddings").read_bytes(), numpy.float32).tolist() == embed(pixels_of(1))


def test_a_picture_that_cannot_be_read_is_an_error_and_the_next_run_works(
    open_model: Open, write: Write, tmp_path: Path
) -> None:
    backend = open_model("G")
    gone = replace(picture(tmp_path, 1), path=str(tmp_path / "gone.png"), sha256="0" * 64)
    with pytest.raises(GenerationError, match=r"gone\.png cannot be read"):
        write(backend, [ask("What is this?", gone)])
    assert write(backend, [ask("What is this?", picture(tmp_path, 1))])[0]


def test_the_library_of_encoders_is_needed(compiled: Compiled, model: Path, tmp_path: Path) -> None:
    alone = copyfile(compiled("G"), tmp_path / "librkllmrt.so")
    settings = Settings(model=str(model), rkllm=Rkllm(library=str(alone)))
    with pytest.raises(ModelError, match=r"needs librknnrt\.so") as raised:
        open_backend(settings)
    assert 'encoder = "none"' in raised.value.hint


def test_without_an_encoder_a_model_reads_texts(open_model: Open, write: Write) -> None:
    backend = open_model("G", encoder="none")
    assert backend.media_kinds == frozenset()
    assert write(backend, [ask("<image> Hello!")])[0]


@pytest.mark.parametrize(
    ("name", "files", "found"),
    [
        ("Qwen2.5-VL-3B_w8a8_rk3588", ["qwen2_5-vl-3b_vision_rk3588.rknn", "qwen2-vl-2b_vision_rk3588.rknn"], 0),
        ("qwen3-vl-4b-instruct_rk3588", ["qwen3-vl-2b_vision.rknn", "qwen3-vl-4b_vision.rknn"], 1),
        ("MiniCPM-V-2_6_rk3588", ["minicpm_v_vision.rknn", "yolo11.rknn"], 0),
        ("Qwen3-1.7B-w8a8-rk3588", ["qwen3-vl-2b_vision.rknn"], None),
        ("Qwen3.5-0.8B-rk3588", ["qwen3-vl-2b_vision.rknn", "qwen2-vl-2b_vision.rknn"], None),
        ("qwen3-vl-4b-instruct_rk3588", ["qwen3-vl-2b_vision.rknn"], None),
        ("SmolVLM2-2.2B_rk3588", ["smolvlm2_500m_vision.rknn", "smolvlm2_2_2b_vision.rknn"], 1),
        ("internvl3-1b_rk3588", ["yolo11.rknn"], None),
    ],
)
def test_an_encoder_is_found_beside_its_model(name: str, files: list[str], found: int | None, tmp_path: Path) -> None:
    for file in files:
        (tmp_path / file).touch()
    model = tmp_path / f"{name}.rkllm"
    encoder = find_encoder(model, "")
    assert (encoder and encoder[0]) == (None if found is None else tmp_path / files[found])
    assert find_encoder(model, "none") is None


def test_an_encoder_of_the_settings_must_exist_and_fit_a_known_family(tmp_path: Path) -> None:
    path = write_encoder(tmp_path / "any.rknn")
    encoder = find_encoder(tmp_path / "SmolVLM2-500M.rkllm", str(path))
    assert encoder and encoder[0] == path and encoder[1].content == "<image>"
    with pytest.raises(ModelError, match="no such vision encoder"):
        find_encoder(tmp_path / "SmolVLM2-500M.rkllm", str(tmp_path / "gone.rknn"))
    with pytest.raises(ModelError, match="not the name of a vision model") as raised:
        find_encoder(tmp_path / "unknown.rkllm", str(path))
    assert all(family in raised.value.hint for family in VISION_FAMILIES)


def test_families_are_known_by_their_published_names() -> None:
    names = ("Qwen2-VL-2B-Instruct", "qwen2_5-vl-3b", "Qwen3-VL-2B", "MiniCPM-V-2_6", "InternVL3-1B", "InternVL3_5-1B")
    found = [find_vision_family(name) for name in (*names, "SmolVLM2-256M-Video-Instruct", "DeepSeek-OCR")]
    known = ["Qwen2-VL", "Qwen2.5-VL", "Qwen3-VL", "MiniCPM-V", "InternVL3", "InternVL3", "SmolVLM", "DeepSeek-OCR"]
    assert found == known
    assert find_vision_family("Qwen2.5-7B-Instruct") == ""


@pytest.mark.parametrize(
    ("chip", "setting", "is_explicit", "has_encoder", "domain"),
    [
        ("rockchip,rk3588", 0, False, True, 1),
        ("rockchip,rk3576", 0, False, True, 1),
        ("rockchip,rk3562", 0, False, True, 0),
        ("rockchip,rv1126b", 0, False, True, 0),
        ("rockchip,rk3588", 0, False, False, 0),
        ("rockchip,rk3588", 0, True, True, 0),
        ("rockchip,rk3588", 2, True, True, 2),
        ("", 0, False, True, 0),
    ],
)
def test_the_encoder_has_another_memory_domain_where_a_chip_has_several(
    chip: str, setting: int, is_explicit: bool, has_encoder: bool, domain: int, tmp_path: Path
) -> None:
    (tmp_path / "proc/device-tree").mkdir(parents=True)
    (tmp_path / "proc/device-tree/compatible").write_text(chip)
    origins = {"rkllm.base_domain_id": Origin.USER} if is_explicit else {}
    settings = Settings(rkllm=Rkllm(base_domain_id=setting), origins=origins)
    assert choose_domain(settings, has_encoder=has_encoder, root=tmp_path) == domain


def test_a_library_without_the_functions_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "librknnrt.so").write_bytes(b"no library")
    with pytest.raises(RunFailedError, match="cannot be used"):
        VisionEncoder(tmp_path / "librknnrt.so", write_encoder(tmp_path / "x.rknn"))
