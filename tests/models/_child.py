"""One process of a model's test: `_child.py MODEL inference|training`, one JSON line on stdout.

Compiles the model through hotstart or finds its package, runs it, and compares with eager.
"""

from __future__ import annotations

import copy
import json
import sys
from typing import Any

import torch
import transformers

import hotstart
from hotstart.examples import gpt

_SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}
_TEXT = {**_SIZES, "vocab_size": 100, "max_position_embeddings": 64}
_OF_TOKENS = {"bos_token_id": 1, "eos_token_id": 2}


def _demo() -> Any:
    return gpt.build(gpt.GPTConfig(layers=2, width=32))


def _llama() -> Any:
    config = transformers.LlamaConfig(num_key_value_heads=2, **_TEXT)
    return transformers.LlamaForCausalLM(config)


def _gpt2() -> Any:
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 100, "n_positions": 64}
    dropout = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, **dropout, **_OF_TOKENS))


def _bert() -> Any:
    dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return transformers.BertModel(transformers.BertConfig(**_TEXT, **dropout))


def _vit() -> Any:
    return transformers.ViTModel(transformers.ViTConfig(image_size=32, patch_size=8, **_SIZES))


def _resnet() -> Any:
    sizes = {"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1]}
    return transformers.ResNetModel(transformers.ResNetConfig(**sizes))


MODELS = {
    "demo": (_demo, "ids"),
    "bert": (_bert, "input_ids"),
    "gpt2": (_gpt2, "input_ids"),
    "llama": (_llama, "input_ids"),
    "resnet": (_resnet, "pixel_values"),
    "vit": (_vit, "pixel_values"),
}


def _inputs(name: str) -> dict[str, torch.Tensor]:
    if name != "pixel_values":
        return {name: torch.arange(8)[None] + 3}
    return {name: torch.rand(1, 3, 32, 32, generator=torch.Generator().manual_seed(1))}


def _outputs(compiled: Any, inputs: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    outputs = compiled(**inputs)
    if torch.is_tensor(outputs):
        return [outputs]
    return [v for v in outputs.values() if torch.is_tensor(v)]


def _infer(compiled: Any, inputs: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    with torch.no_grad():
        return _outputs(compiled, inputs)


def _train(compiled: Any, model: Any, inputs: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """The loss and the parameters after one step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = _outputs(compiled, inputs)[0].square().mean()
    loss.backward()
    optimizer.step()
    return [loss.detach(), *(p.detach() for p in model.parameters())]


def main(name: str, mode: str) -> dict[str, Any]:
    make, argument = MODELS[name]
    torch.manual_seed(0)
    model = make().train(mode == "training")
    eager = copy.deepcopy(model)
    inputs = _inputs(argument)
    with hotstart.enable():
        compiled = torch.compile(model)
        if mode == "training":
            actual, expected = _train(compiled, model, inputs), _train(eager, eager, inputs)
        else:
            actual, expected = _infer(compiled, inputs), _infer(eager, inputs)
        hotstart.save()
        explanation = hotstart.explain()
    stats = torch._dynamo.utils.counters["stats"]
    return {
        "graphs": stats.get("unique_graphs", 0),
        "equal_to_eager": all(
            torch.allclose(a, e, rtol=1e-4, atol=1e-5)
            for a, e in zip(actual, expected, strict=True)
        ),
        "digest": [float(a.double().abs().sum()) for a in actual],
        **explanation.to_dict()["functions"][0],
    }


if __name__ == "__main__":
    out, sys.stdout = sys.stdout, sys.stderr
    print(json.dumps(main(*sys.argv[1:])), file=out)
