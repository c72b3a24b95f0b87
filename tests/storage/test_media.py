"""Pictures become files that every engine reads; hostile ones end in a sentence, soon and without much memory."""

from __future__ import annotations

import os
import subprocess
import sys
from ast import literal_eval
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from pictures import HOSTILE, RED, draw, encode, take_photo
from rkllm_chat.core.errors import ConfigError
from rkllm_chat.storage.media import MAX_SIDE, MediaStore

_LIMIT_S, _LIMIT_KB = 2.0, 200 << 10


@pytest.fixture
def store() -> Iterator[MediaStore]:
    with MediaStore() as store:
        yield store


def test_a_photo_is_stored_upright_and_does_not_say_where_it_was_taken(store: MediaStore) -> None:
    media = store.add(take_photo(64, 48), "photo.jpg")
    with Image.open(media.path) as picture:
        assert (picture.format, picture.size, dict(picture.getexif())) == ("JPEG", (48, 64), {})
        assert picture.getpixel((24, 10)) == pytest.approx(RED, abs=25)  # the left half is at the top
    assert (media.kind, media.media_type, media.width, media.height) == ("image", "image/jpeg", 48, 64)
    assert Path(media.path).stat().st_mode & 0o777 == 0o600


MODES = ("RGB", "RGBA", "LA", "P", "L", "1", "I;16")


@pytest.mark.parametrize(
    ("mode", "format_name"),
    [*((mode, "PNG") for mode in MODES), ("CMYK", "JPEG"), *(("RGB", name) for name in ("GIF", "WEBP", "BMP"))],
)
def test_every_picture_becomes_one_that_all_engines_read(mode: str, format_name: str, store: MediaStore) -> None:
    picture = draw(mode="L").convert("I;16") if mode == "I;16" else draw(mode=mode)
    media = store.add(encode(picture, format_name), "x")
    with Image.open(media.path) as picture:
        assert picture.format in ("PNG", "JPEG") and picture.mode in ("RGB", "L") and picture.size == (64, 48)
        assert not picture.info.get("transparency")


def test_what_is_transparent_is_white(store: MediaStore) -> None:
    media = store.add(encode(Image.new("RGBA", (40, 40), (0, 0, 0, 0))), "x")
    with Image.open(media.path) as picture:
        assert picture.getpixel((5, 5)) == (255, 255, 255)


def test_a_large_picture_is_scaled_down_and_a_small_one_stays_as_it_is(store: MediaStore) -> None:
    large = store.add(encode(draw(4000, 1000)), "large")
    assert (large.width, large.height) == (MAX_SIDE, MAX_SIDE // 4)
    small = encode(draw())
    assert Path(store.add(small, "small").path).read_bytes() == small


def test_a_picture_is_stored_once_and_removed_with_the_store() -> None:
    with MediaStore() as store:
        first, second = store.add(encode(draw()), "a.png"), store.add(encode(draw()), "b.png")
        assert (first.path, first.name, second.name) == (second.path, "a.png", "b.png")
    assert not Path(first.path).parent.exists()


def test_the_oldest_files_are_removed_beyond_the_limit() -> None:
    with MediaStore(max_bytes=10_000) as store:
        paths = [Path(store.add_file(os.urandom(4000), "application/pdf", "x").path) for _ in range(4)]
        assert [path.exists() for path in paths] == [False, False, True, True]


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (b"RIFF\x24\0\0\0WAVEfmt ", "audio/wav"),
        (b"ID3\x04" + bytes(20), "audio/mpeg"),
        (b"fLaC" + bytes(20), "audio/flac"),
    ],
)
def test_a_sound_is_recognized_by_its_content(data: bytes, media_type: str, store: MediaStore) -> None:
    media = store.add(data, "picture.png")
    assert (media.kind, media.media_type, Path(media.path).read_bytes()) == ("audio", media_type, data)


def test_without_pillow_a_picture_is_refused_with_what_to_install(
    store: MediaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(ConfigError) as caught:
        store.add(encode(draw()), "photo.png")
    assert "pip install 'rkllm-chat[vision]'" in str(caught.value)


_READER = """
import re, resource, sys, time
import PIL.Image
from rkllm_chat.core.errors import UsageError
from rkllm_chat.storage.media import MediaStore
data = sys.stdin.buffer.read()
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
started, said = time.process_time(), ""
with MediaStore() as store:
    try:
        store.add(data, "it")
    except UsageError as error:
        said = str(error)
seconds = time.process_time() - started
print(repr((said, seconds, int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]))))
"""


def read_in_process(data: bytes) -> tuple[str, float, int]:
    """Return what is said about a picture, the seconds of CPU, and the peak of the memory of the process in KB."""
    done = subprocess.run([sys.executable, "-c", _READER], input=data, capture_output=True, check=True, timeout=50)
    said, seconds, peak_kb = literal_eval(done.stdout.decode())
    return said, seconds, peak_kb


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pictures_end_in_a_sentence(name: str) -> None:
    """Reads each in a process of its own, whose memory is measured."""
    make, expected = HOSTILE[name]
    said, seconds, peak_kb = read_in_process(make())
    assert expected in said and "\n" not in said
    assert seconds < _LIMIT_S and peak_kb < _LIMIT_KB


@pytest.mark.slow
@pytest.mark.parametrize(("format_name", "size"), [("PNG", (5000, 3000)), ("JPEG", (12_000, 9000))])
def test_the_largest_pictures_are_read_within_the_same_memory(format_name: str, size: tuple[int, int]) -> None:
    """Reads each in a process of its own, whose memory is measured."""
    mode = "RGBA" if format_name == "PNG" else "RGB"
    said, _, peak_kb = read_in_process(encode(Image.new(mode, size, (9, 99, 199)), format_name))
    assert said == "" and peak_kb < _LIMIT_KB
