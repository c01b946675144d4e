"""A small GPT of plain torch modules.

It imports nothing but torch, so that a process can measure torch's own package on it without
having imported hotstart.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class GPTConfig:
    layers: int = 24
    width: int = 64
    heads: int = 4
    vocabulary: int = 128
    context: int = 64


class Attention(nn.Module):
    """Causal self-attention."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.out = nn.Linear(config.width, config.width)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (self._split(part) for part in self.qkv(x).chunk(3, dim=-1))
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        merged: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return merged

    def _split(self, x: Tensor) -> Tensor:
        """(batch, time, width) to (batch, head, time, width of a head)."""
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class Block(nn.Module):
    """One layer: attention and a feed-forward network, each behind a norm and a residual."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.norm_attention = nn.LayerNorm(config.width)
        self.attention = Attention(config)
        self.norm_feed = nn.LayerNorm(config.width)
        self.feed = nn.Sequential(
            nn.Linear(config.width, 4 * config.width),
            nn.GELU(),
            nn.Linear(4 * config.width, config.width),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm_attention(x))
        fed: Tensor = self.feed(self.norm_feed(x))
        return x + fed


class GPT(nn.Module):
    """Token ids (batch, time) to logits (batch, time, vocabulary)."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.vocabulary, config.width)
        self.positions = nn.Embedding(config.context, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.vocabulary)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(self.norm(x))
        return logits


def build(config: GPTConfig | None = None, seed: int = 0) -> GPT:
    """A GPT whose weights depend on ``config`` and ``seed`` only. The global random state is left
    as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return GPT(config or GPTConfig())


def example_ids(config: GPTConfig | None = None, batch: int = 1, seed: int = 1) -> Tensor:
    """Token ids to run it on, a full context of them."""
    config = config or GPTConfig()
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(config.vocabulary, (batch, config.context), generator=generator)


def loss(model: nn.Module, ids: Tensor) -> Tensor:
    """The next-token loss, for a training step."""
    logits = model(ids[:, :-1])
    return functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
