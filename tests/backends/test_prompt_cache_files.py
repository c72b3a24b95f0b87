"""Files of evaluated beginnings: contents, modes, and removal."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rkllm_chat.backends.shared.prompt_cache_files import MAX_FILES, MAX_TOTAL_BYTES, PromptCacheFiles


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"a model")
    return path


@pytest.fixture
def caches(tmp_path: Path) -> Path:
    return tmp_path / "state" / "prompt-caches"


@pytest.fixture
def files(model: Path, caches: Path) -> PromptCacheFiles:
    return PromptCacheFiles(caches, model, "engine")


def save(files: PromptCacheFiles, beginning: str | list[int], content: bytes = b"evaluated") -> Path:
    assert files.save(beginning, lambda path: path.write_bytes(content) > 0)
    path = files.find(beginning)
    assert path is not None and path.read_bytes() == content
    return path


def test_a_file_belongs_to_one_model_engine_and_beginning(model: Path, caches: Path, tmp_path: Path) -> None:
    files = PromptCacheFiles(caches, model, "engine 1")
    save(files, "tools")
    other = tmp_path / "other" / "model.gguf"
    other.parent.mkdir()
    other.write_bytes(b"a model")
    assert PromptCacheFiles(caches, model, "engine 1").find("tools")
    assert not files.find("tools!") and not files.find([1, 2])
    assert not PromptCacheFiles(caches, model, "engine 2").find("tools")
    assert not PromptCacheFiles(caches, other, "engine 1").find("tools")
    os.utime(model, ns=(1, 1))
    assert not PromptCacheFiles(caches, model, "engine 1").find("tools")
    model.write_bytes(b"another model")
    os.utime(model, ns=(1, 1))
    assert not PromptCacheFiles(caches, model, "engine 1").find("tools")


@pytest.mark.parametrize(("short", "long"), [("tools", "tools and questions"), ([1, 2], [1, 2, 3, 4])])
def test_the_longest_kept_beginning_of_a_prompt_is_found(
    files: PromptCacheFiles, short: str | list[int], long: str | list[int]
) -> None:
    assert files.find_longest(long) == (None, 0)
    for beginning in (short, long):
        path = save(files, beginning)
        assert files.find_longest(long + long) == (path, len(beginning))  # type: ignore[operator]
    path.unlink()
    assert files.find_longest(long) == (files.find(short), len(short))
    assert files.find_longest(short[1:]) == (None, 0)


def test_files_have_owner_only_modes(model: Path, caches: Path) -> None:
    before = os.umask(0)
    try:
        path = save(PromptCacheFiles(caches, model, "engine"), "tools")
    finally:
        os.umask(before)
    assert (path.stat().st_mode & 0o777, caches.stat().st_mode & 0o777) == (0o600, 0o700)


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: data[:0],
    "without its last byte": lambda data: data[:-1],
    "longer by a byte": lambda data: data + b"\0",
    "another bit at its end": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_removed(files: PromptCacheFiles, caches: Path, damage: str) -> None:
    path = save(files, "tools", bytes(range(256)) * 20)
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    assert files.find("tools") is None
    assert list(caches.iterdir()) == []
    save(files, "tools")


def test_a_renamed_file_is_removed(files: PromptCacheFiles, caches: Path) -> None:
    one, other = save(files, "one", b"1"), save(files, "other", b"2")
    key = one.stem.partition("-")[0]
    other.rename(caches / f"{key}-{other.stem.partition('-')[2]}.bin")
    one.unlink()
    assert files.find("one") is None
    assert list(caches.iterdir()) == []


def test_a_link_is_not_followed(files: PromptCacheFiles, caches: Path, tmp_path: Path) -> None:
    path = save(files, "tools")
    path.rename(tmp_path / "elsewhere.bin")
    path.symlink_to(tmp_path / "elsewhere.bin")
    assert files.find("tools") is None
    assert (tmp_path / "elsewhere.bin").read_bytes() == b"evaluated"
    caches.rmdir()
    (tmp_path / "theirs").mkdir()
    caches.symlink_to(tmp_path / "theirs")
    assert not files.save("tools", lambda path: path.write_bytes(b"x") > 0)
    assert list((tmp_path / "theirs").iterdir()) == []


def test_the_files_used_last_are_kept(files: PromptCacheFiles, caches: Path) -> None:
    for number in range(MAX_FILES):
        os.utime(save(files, [number]), ns=(number, number))
    assert files.find([0])
    for number in (8, 9):
        save(files, [number])
    assert len(list(caches.iterdir())) == MAX_FILES
    assert [number for number in (*range(MAX_FILES), 8, 9) if files.find([number])] == [0, 3, 8, 9]


@pytest.mark.slow  # it hashes as many bytes as there may be
def test_files_take_a_limited_number_of_bytes(files: PromptCacheFiles, caches: Path) -> None:
    def write_half(path: Path) -> bool:
        os.truncate(path, MAX_TOTAL_BYTES // 2 + 1)
        return True

    assert files.save("one", write_half, MAX_TOTAL_BYTES // 2 + 1)
    assert files.save("two", write_half, MAX_TOTAL_BYTES // 2 + 1)
    (left,) = caches.iterdir()
    assert left == files.find("two")
    assert not files.save("three", lambda _: pytest.fail("it was written"), MAX_TOTAL_BYTES + 1)
    assert not files.save("four", lambda _: pytest.fail("it was written"), 1 << 60), "the disk has no room for it"


def test_an_incomplete_write_leaves_no_file(files: PromptCacheFiles, caches: Path) -> None:
    def fail(path: Path) -> bool:
        path.write_bytes(b"half")
        raise RuntimeError

    assert not files.save("tools", lambda _: False)
    with pytest.raises(RuntimeError):
        files.save("tools", fail)
    assert list(caches.iterdir()) == []


def test_stale_partial_files_are_removed(files: PromptCacheFiles, caches: Path) -> None:
    save(files, "tools")
    old, new = caches / "old.partial", caches / "new.partial"
    for path in (old, new):
        path.touch()
    os.utime(old, (1, time.time() - 7200))
    save(files, "more tools")
    assert not old.exists() and new.exists()


def test_a_folder_that_cannot_be_written_is_no_error(files: PromptCacheFiles, caches: Path) -> None:
    caches.parent.mkdir()
    caches.write_text("in the way", encoding="utf-8")
    assert files.find("tools") is None
    assert not files.save("tools", lambda _: True)
    assert caches.read_text(encoding="utf-8") == "in the way"
