"""Turns a GGUF of export.py back into what training goes on from: `python models/tiny-tools/resume.py FILE DIR`.

DIR gets `model.pt` and `tokenizer.json`; then `train.py --start DIR/model.pt --out DIR` goes on. The matrices come
back as Q8_0 has kept them, about 1 part in 250 off; training levels that within its first steps.
"""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

import gguf
import torch
from tokenizers import Tokenizer, models

from export import gguf_name
from network import Network, Shape
from tokenizer import CONTROLS, pre_tokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    reader = gguf.GGUFReader(options.file)
    shape = shape_of(reader)
    state = {"weights": weights_of(reader, shape), "shape": asdict(shape), "steps": 0}
    state["tokens"] = int(field(reader, "tiny_tools.training_tokens"))
    torch.save(state, options.folder / "model.pt")
    tokenizer_of(reader).save(str(options.folder / "tokenizer.json"))


def field(reader: gguf.GGUFReader, name: str) -> Any:
    return reader.get_field(name).contents()


def shape_of(reader: gguf.GGUFReader) -> Shape:
    return Shape(
        vocabulary=field(reader, "llama.vocab_size"),
        width=field(reader, "llama.embedding_length"),
        layers=field(reader, "llama.block_count"),
        heads=field(reader, "llama.attention.head_count"),
        inner=field(reader, "llama.feed_forward_length"),
        context=field(reader, "llama.context_length"),
        rope_base=field(reader, "llama.rope.freq_base"),
        norm_epsilon=field(reader, "llama.attention.layer_norm_rms_epsilon"),
    )


def weights_of(reader: gguf.GGUFReader, shape: Shape) -> dict[str, torch.Tensor]:
    """The tensors under the names of the network."""
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    weights: dict[str, torch.Tensor] = {}
    for name, expected in Network(shape).state_dict().items():
        tensor = tensors[gguf_name(name)]
        values = gguf.dequantize(tensor.data, tensor.tensor_type)
        weights[name] = torch.tensor(values, dtype=torch.float32).reshape(expected.shape)
    return weights


def tokenizer_of(reader: gguf.GGUFReader) -> Tokenizer:
    pieces = field(reader, "tokenizer.ggml.tokens")
    merges = [tuple(merge.split(" ")) for merge in field(reader, "tokenizer.ggml.merges")]
    tokenizer = Tokenizer(models.BPE({piece: index for index, piece in enumerate(pieces)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizer()
    tokenizer.add_special_tokens(CONTROLS)
    return tokenizer


if __name__ == "__main__":
    main()
