"""`rkllm-chat models`: what lies in the models folders, without loading it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def test_models_are_listed_with_what_their_files_tell(in_process: Any, folder: Path, shipped_model: Path) -> None:
    models = folder / "models"
    models.mkdir()
    (models / "qwen3-copy.gguf").write_bytes(shipped_model.read_bytes())
    (models / "Qwen2.5-1.5B_w8a8_RK3588.rkllm").write_bytes(b"RKLLM" * 100)
    (models / "broken.gguf").write_bytes(b"version https://git-lfs.github.com/spec/v1")
    (models / "mmproj-qwen3-copy-f16.gguf").write_bytes(b"GGUF")
    (models / "chat_template.jinja").write_text("{{ messages }}", encoding="utf-8")
    listed = json.loads(in_process("models", "--json").stdout)["result"]
    rows = {row["name"]: row for row in listed["models"]}
    assert list(rows) == ["broken.gguf", "Qwen2.5-1.5B_w8a8_RK3588.rkllm", "qwen3-copy.gguf", "tiny-tools"]
    copy = rows["qwen3-copy.gguf"]
    assert (copy["kind"], copy["context_tokens"], copy["family"], copy["state"]) == ("gguf", 2048, "qwen3", "ok")
    assert (copy["path"], copy["size_bytes"]) == (str(models / copy["name"]), shipped_model.stat().st_size)
    assert (copy["media_file"], rows["tiny-tools"]["media_file"]) == (str(models / "mmproj-qwen3-copy-f16.gguf"), "")
    npu = rows["Qwen2.5-1.5B_w8a8_RK3588.rkllm"]
    assert (npu["kind"], npu["target"], npu["template"]) == ("rkllm", "rk3588 w8a8", "chat_template.jinja")
    assert rows["broken.gguf"]["state"] == "wrong" and "git lfs pull" in rows["broken.gguf"]["findings"][0]
    text = in_process("models").stdout
    assert "pictures or sound by mmproj-qwen3-copy-f16.gguf" in text
    assert "wrong broken.gguf" in text and str(models / copy["name"]) in text
