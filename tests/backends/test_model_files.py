"""The model files that are found on a machine, by the names that they can be called by."""

from __future__ import annotations

from pathlib import Path

import pytest

from rkllm_chat.backends.shared.model_files import (
    SHIPPED_NAME,
    ModelFile,
    find_models,
    find_projector,
    find_shipped_model,
)


def write(path: Path, size_bytes: int = 3) -> Path:
    """Write a file with its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size_bytes)
    return path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home; the current folder is another one."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "home"


def test_every_models_folder_is_searched_and_each_file_is_listed_once(home: Path, tmp_path: Path) -> None:
    configured = write(tmp_path / "disk/qwen/a.gguf", 7)
    data = write(home / ".local/share/rkllm-chat/models/b.rkllm")
    beside = write(home / ".config/rkllm-chat/models/c.gguf")
    local = write(tmp_path / "work/models/d.gguf")
    own = write(home / "models/deep/er/e.gguf")
    current = write(tmp_path / "elsewhere/f.gguf")
    write(tmp_path / "elsewhere/below/g.gguf")  # the folder of the current model is not searched below
    (home / "models/link.gguf").symlink_to(configured)
    (home / "models/cycle").symlink_to(home / "models")

    found = find_models(str(tmp_path / "disk"), str(current), {"HOME": str(home)})

    shipped = find_shipped_model()
    assert found == [
        ModelFile(configured, "gguf", 7),
        ModelFile(data, "rkllm", 3),
        ModelFile(beside, "gguf", 3),
        ModelFile(local.relative_to(tmp_path / "work"), "gguf", 3),
        ModelFile(own, "gguf", 3),
        ModelFile(current, "gguf", 3),
        ModelFile(shipped, "gguf", shipped.stat().st_size, is_shipped=True),
    ]
    assert [file.name for file in found] == ["a.gguf", "b.rkllm", "c.gguf", "d.gguf", "e.gguf", "f.gguf", SHIPPED_NAME]


def test_what_is_no_model_by_itself_is_not_listed(home: Path) -> None:
    first = write(home / "models/big-00001-of-00002.gguf")
    write(home / "models/big-00002-of-00002.gguf")
    write(home / "models/mmproj-big.gguf")
    write(home / "models/big.mmproj-Q8_0.gguf")
    write(home / "models/tokenizer.json")
    write(home / "models/half.gguf.part")
    (home / "models/folder.gguf").mkdir()

    assert [file.path for file in find_models(environment={"HOME": str(home)})][:-1] == [first]


def test_a_huge_folder_is_searched_within_a_limit(home: Path) -> None:
    write(home / "models/a/near.gguf")
    write(home / "models/a/b/c/d/e/f/far.gguf")
    assert [file.name for file in find_models(environment={"HOME": str(home)})][:-1] == ["near.gguf"]


@pytest.mark.parametrize(
    ("model", "others", "found"),
    [
        ("SmolVLM2-500M-Q8_0.gguf", ["mmproj-SmolVLM2-500M-f16.gguf", "mmproj-SmolVLM2-2.2B-f16.gguf"], 0),
        ("SmolVLM2-500M-Q8_0.gguf", ["mmproj-SmolVLM2-f16.gguf", "SmolVLM2-500M.mmproj-Q8_0.gguf"], 1),
        (
            "Qwen2.5-VL-3B-Q4_K_M-00001-of-00002.gguf",
            ["Qwen2.5-VL-3B-Q4_K_M-00002-of-00002.gguf", "mmproj-F16.gguf"],
            1,
        ),
        ("ggml-model-Q4_K_M.gguf", ["mmproj-model-f16.gguf"], 0),
        ("other.gguf", ["mmproj-SmolVLM2-500M-f16.gguf"], 0),
        ("other.gguf", ["SmolVLM2-500M-Q8_0.gguf", "mmproj-SmolVLM2-500M-f16.gguf"], None),
        ("other.gguf", ["SmolVLM2-500M-Q8_0.gguf", "mmproj-F16.gguf"], None),
        ("other-Q4_0.gguf", ["other-Q8_0.gguf", "mmproj-BF16.gguf", "mmproj-F16.gguf", "mmproj-F32.gguf"], 2),
        ("other.gguf", ["mmproj-a-F16.gguf", "mmproj-b-F16.gguf"], None),
        ("other.gguf", [], None),
    ],
)
def test_a_projector_is_found_beside_its_model(
    model: str, others: list[str], found: int | None, tmp_path: Path
) -> None:
    for name in (model, *others):
        write(tmp_path / name)
    expected = None if found is None else tmp_path / others[found]
    assert find_projector(tmp_path / model, "") == expected
    assert find_projector(tmp_path / model, "none") is None
    assert find_projector(tmp_path / model, "elsewhere/p.gguf") == Path("elsewhere/p.gguf")
