"""Pictures in llama.cpp: the shipped language model behind projectors of random weights, through the real libraries."""

from __future__ import annotations

import asyncio
import ctypes
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import llama_cpp
import pytest
from llama_cpp import mtmd_cpp

from backends.openai.talks import reply_of
from engine_fault import open_bare_llama
from rkllm_chat.backends import open_backend
from rkllm_chat.backends.llama.backend import LlamaBackend
from rkllm_chat.backends.llama.media_projector import MediaProjector
from rkllm_chat.config.settings import Generation, Settings
from rkllm_chat.core.errors import GenerationError, ModelError
from rkllm_chat.core.events import Usage
from rkllm_chat.core.messages import Media, Message
from stage import Run
from vision_models import SIDE, Family, with_mrope, write_picture, write_projector

pytestmark = pytest.mark.model
GREEDY = Generation(temperature=0, max_tokens=12)
FAMILIES: tuple[Family, ...] = ("mlp", "tiles", "qwen2vl_merger")
TEMPLATE_END = "<|im_end|>\n<|im_start|>assistant\n"
Open = Callable[..., LlamaBackend]


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest) -> Family:
    found: Family = request.param
    return found


@pytest.fixture
def model(family: Family, shipped_model: Path, tmp_path: Path) -> Path:
    """A language model; its projector lies beside it."""
    content = shipped_model.read_bytes()
    path = tmp_path / "tiny-VL-Q8_0.gguf"
    path.write_bytes(with_mrope(content) if family == "qwen2vl_merger" else content)
    write_projector(tmp_path / "mmproj-tiny-VL-F16.gguf", family)
    return path


@pytest.fixture
def open_model(model: Path) -> Iterator[Open]:
    backends: list[LlamaBackend] = []

    def open_one(**options: Any) -> LlamaBackend:
        backends.append(LlamaBackend(model, 0, **options))
        return backends[-1]

    yield open_one
    for backend in backends:
        asyncio.run(backend.aclose())


def write(backend: LlamaBackend, prompt: Sequence[Message], generation: Generation = GREEDY) -> tuple[str, Usage]:
    return asyncio.run(reply_of(backend, prompt, generation))


def projector_of(backend: LlamaBackend) -> MediaProjector:
    assert backend.projector
    return backend.projector


def chunks_of(backend: LlamaBackend, picture: Media) -> int:
    """Return how many runs of the encoder a picture takes: several if it is cut into tiles."""
    return len({token for token in projector_of(backend).encode(picture) if token < 0})


def ask(text: str, *media: Media) -> Message:
    return Message("user", text, media=media)


def test_a_picture_is_evaluated_once_in_a_conversation(open_model: Open, family: Family, tmp_path: Path) -> None:
    backend = open_model()
    picture = write_picture(tmp_path / "a.png")
    prompt = [ask("What is this?", picture)]
    reply, first = write(backend, prompt)
    longer = [*prompt, Message("assistant", reply), ask("And?")]
    second_reply, second = write(backend, longer)
    text_only = [Message("user", "What is this?"), *longer[1:]]
    pictures = backend.count_tokens(longer) - backend.count_tokens(text_only)
    assert backend.media_kinds == {"image"}
    assert pictures >= 15  # 5 × 3 tokens, or 16 patches
    assert (first.prompt_tokens, second.prompt_tokens) == (backend.count_tokens(prompt), backend.count_tokens(longer))
    assert second.reused_tokens >= first.prompt_tokens
    assert second.prefilled_tokens < pictures
    assert projector_of(backend).encoder_runs == chunks_of(backend, picture) == (5 if family == "tiles" else 1)
    assert write(open_model(), longer)[0] == second_reply


def test_replies_are_those_of_the_librarys_own_evaluation(open_model: Open, model: Path, tmp_path: Path) -> None:
    picture = write_picture(tmp_path / "a.png", seed=3)
    parts = [ask("Look: what is this? I see a cat.", replace(picture, position=6))]
    marker = mtmd_cpp.mtmd_default_marker().decode()
    prompt = f"<|im_start|>user\nLook: {marker}what is this? I see a cat.{TEMPLATE_END}"
    assert write(open_model(), parts)[0] == write_through_mtmd(model, prompt, Path(picture.path), GREEDY.max_tokens)


def test_another_picture_changes_the_evaluation(open_model: Open, tmp_path: Path) -> None:
    backend = open_model()
    vivid = Generation(temperature=2, seed=1, max_tokens=24)  # the random sequence is the same, so the logits differ
    pictures = [write_picture(tmp_path / f"{seed}.png", seed=seed) for seed in range(2)]
    replies = [write(backend, [ask("What is this?", picture)], vivid)[0] for picture in (*pictures, pictures[0])]
    assert replies[0] == replies[2] != replies[1]
    assert projector_of(backend).encoder_runs == 3 * chunks_of(backend, pictures[0])


@pytest.mark.slow
def test_going_back_in_a_conversation_keeps_its_pictures(open_model: Open, tmp_path: Path) -> None:
    backend = open_model()
    first, second = (write_picture(tmp_path / f"{seed}.png", 84, 56, seed) for seed in range(2))
    start = [ask("Compare.", first), Message("assistant", "With what?")]
    prompts = ([*start, ask("This.", second, second)], [*start, ask("With a dog.")], [*start, ask("This.", second)])
    replies = [write(backend, prompt)[0] for prompt in prompts]
    assert projector_of(backend).encoder_runs == (1 + 2 + 0 + 1) * chunks_of(backend, first)
    assert replies == [write(open_model(), prompt)[0] for prompt in prompts]


@pytest.mark.slow
def test_alternating_conversations_keep_their_pictures(open_model: Open, tmp_path: Path) -> None:
    backend = open_model()
    backend.keep_states(1 << 28)
    words = "These are some words before the picture, so that there is something to keep. " * 3
    conversations = [[ask(f"{n}. {words}", write_picture(tmp_path / f"{n}.png", seed=n))] for n in range(2)]
    for _ in range(2):
        for conversation in conversations:
            conversation += [Message("assistant", write(backend, conversation)[0]), ask("Tell me more.")]
    pictures = [conversation[0].media[0] for conversation in conversations]
    assert projector_of(backend).encoder_runs == sum(chunks_of(backend, picture) for picture in pictures)
    assert [write(open_model(), conversation[:3])[0] for conversation in conversations] == [
        conversation[3].text for conversation in conversations
    ]


def test_the_marker_of_the_library_in_a_text_is_text(open_model: Open, tmp_path: Path) -> None:
    backend = open_model()
    marker = mtmd_cpp.mtmd_default_marker().decode()
    picture = write_picture(tmp_path / "a.png")
    with_marker, without = [ask(f"{marker} {marker}", picture)], [ask("", picture)]
    assert backend.count_tokens(with_marker) > backend.count_tokens(without) + 8
    _, usage = write(backend, with_marker)
    assert usage.prompt_tokens == backend.count_tokens(with_marker)
    assert projector_of(backend).encoder_runs == chunks_of(backend, picture)


def test_history_with_pictures_is_prefilled_in_the_background(open_model: Open, tmp_path: Path) -> None:
    backend = open_model()
    picture = write_picture(tmp_path / "a.png")
    history = [ask("What is this?", picture), Message("assistant", "A red square.")]
    evaluated = asyncio.run(backend.prefill(history))
    prompt = [*history, ask("Really?")]
    reply, usage = write(backend, prompt)
    assert (usage.reused_tokens, projector_of(backend).encoder_runs) == (evaluated, chunks_of(backend, picture))
    assert reply == write(open_model(), prompt)[0]


@pytest.mark.slow
def test_a_stop_ends_the_evaluation_of_a_picture(open_model: Open, tmp_path: Path) -> None:
    backend = open_model()
    prompt = [ask("What is this?", *(write_picture(tmp_path / f"{n}.png", 448, 336, n) for n in range(6)))]

    async def stop_early() -> Usage:
        stream = backend.stream(prompt, GREEDY)
        items = asyncio.ensure_future(collect(stream))
        while not projector_of(backend).encoder_runs:  # noqa: ASYNC110 - a thread counts them
            await asyncio.sleep(0)
        stream.stop()
        return next(item for item in await items if isinstance(item, Usage))

    usage = asyncio.run(stop_early())
    assert (usage.generated_tokens, usage.hit_limit) == (0, False)
    assert projector_of(backend).encoder_runs < sum(chunks_of(backend, picture) for picture in prompt[0].media)
    assert write(backend, prompt)[0] == write(open_model(), prompt)[0]


async def collect(stream: Any) -> list[Any]:
    return [item async for item in stream]


def test_tokens_are_counted_from_the_size_alone(open_model: Open) -> None:
    backend = open_model()
    sizes = [(1, 1), (1, 2048), (2048, 11), (640, 480)]
    prompts = [[ask("", Media("image", "/gone.png", "image/png", str(size), 0, *size))] for size in sizes]
    counts = [backend.count_tokens(prompt) - backend.count_tokens([ask("")]) for prompt in prompts]
    tokens = (SIDE // 14) ** 2
    assert counts == [tokens] * 4 or counts[0] < counts[3] < 2048 // 4
    with pytest.raises(GenerationError, match=r"cannot be read: /gone\.png"):
        write(backend, prompts[0])


def test_a_file_that_changed_is_not_evaluated(open_model: Open, tmp_path: Path) -> None:
    picture = write_picture(tmp_path / "a.png")
    write_picture(tmp_path / "a.png", seed=1)
    with pytest.raises(GenerationError, match=r"is not the file any more that was attached as a\.png"):
        write(open_model(), [ask("What is this?", picture)])


@pytest.mark.parametrize("family", ["mlp"], indirect=True)
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file"),
        (b"PK\x03\x04 not a projector", "not a GGUF file"),
        ("language model", "llama.cpp cannot load this projector"),
        ("other width", r"mismatch between text model \(n_embd = 256\) and mmproj \(n_embd = 128\)"),
        ("half", "it is incomplete"),
    ],
)
def test_a_wrong_projector_is_an_error(model: Path, content: bytes | str | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "mmproj-other.gguf"
    if content == "other width":
        write_projector(path, model_width=128)
    elif content is not None:
        whole = (tmp_path / "mmproj-tiny-VL-F16.gguf").read_bytes()
        texts = {"language model": model.read_bytes(), "half": whole[: len(whole) // 2]}
        path.write_bytes(content if isinstance(content, bytes) else texts[content])
    with pytest.raises(ModelError, match=message) as raised:
        open_backend(Settings(model=str(model), mmproj=str(path)))
    assert "mmproj-other.gguf" in raised.value.message
    assert "mmproj in [chat]" in raised.value.hint


@pytest.mark.parametrize("family", ["mlp"], indirect=True)
def test_a_projector_can_be_left_out(model: Path) -> None:
    backend = open_backend(Settings(model=str(model), mmproj="none"))
    assert backend.media_kinds == frozenset()
    asyncio.run(backend.aclose())


@pytest.mark.parametrize("family", ["mlp"], indirect=True)
def test_the_program_shows_a_picture_to_a_model(model: Path, program: Run, tmp_path: Path) -> None:
    write_picture(tmp_path / "photo.png")
    options = ("--model", str(model), "--no-servers", "--max-tokens", "4", "--output-format", "json")
    asked = [program("-p", "What is this?", *options, *more) for more in ((), ("--image", str(tmp_path / "photo.png")))]
    text, picture = (json.loads(done.stdout)["result"]["usage"]["prompt_tokens"] for done in asked)
    assert picture >= text + (SIDE // 14) ** 2


def write_through_mtmd(model: Path, prompt: str, picture: Path, max_tokens: int) -> str:
    """Return the greedy reply of `mtmd_helper_eval_chunks` to a prompt with the library's own marker."""
    engine = open_bare_llama(str(model), n_ctx=2048, n_batch=512)
    projector = str(model.with_name("mmproj-tiny-VL-F16.gguf")).encode()
    context = mtmd_cpp.mtmd_init_from_file(projector, engine.model, mtmd_cpp.mtmd_context_params_default())
    bitmap = mtmd_cpp.mtmd_helper_bitmap_init_from_file(context, str(picture).encode(), False)
    text = mtmd_cpp.mtmd_input_text(prompt.encode(), len(prompt.encode()), False, True)
    bitmaps = (mtmd_cpp.mtmd_bitmap_p_ctypes * 1)(bitmap)
    chunks = mtmd_cpp.mtmd_input_chunks_init()
    assert mtmd_cpp.mtmd_tokenize(context, chunks, ctypes.byref(text), bitmaps, 1) == 0
    position = ctypes.c_int32()
    status = mtmd_cpp.mtmd_helper_eval_chunks(context, engine.ctx, chunks, 0, 0, 512, True, ctypes.byref(position))
    assert status == 0
    tokens: list[int] = []
    while len(tokens) < max_tokens:
        logits = llama_cpp.llama_get_logits_ith(engine.ctx, -1)
        token = max(range(engine.n_vocab()), key=logits.__getitem__)
        if token == engine.token_eos():
            break
        tokens.append(token)
        assert llama_cpp.llama_decode(engine.ctx, llama_cpp.llama_batch_get_one((ctypes.c_int32 * 1)(token), 1)) == 0
    mtmd_cpp.mtmd_input_chunks_free(chunks)
    mtmd_cpp.mtmd_bitmap_free(bitmap)
    mtmd_cpp.mtmd_free(context)
    data: bytes = engine.detokenize(tokens, special=True)
    engine.close()
    return data.decode()
