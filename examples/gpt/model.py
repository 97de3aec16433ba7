"""A small transformer that reads and writes bytes, and the text that it learns from: plain PyTorch."""

import os
import pathlib

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before_attention = nn.LayerNorm(width)
        self.queries_keys_values = nn.Linear(width, 3 * width)
        self.attended = nn.Linear(width, width)
        self.before_thought = nn.LayerNorm(width)
        self.thought = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x, future):
        samples, length, width = x.shape
        parts = self.queries_keys_values(self.before_attention(x))
        queries, keys, values = parts.view(samples, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = queries @ keys.transpose(-2, -1) / (width // self.heads) ** 0.5
        weights = scores.masked_fill(future, -torch.inf).softmax(-1)
        x = x + self.attended((weights @ values).transpose(1, 2).reshape(samples, length, width))
        return x + self.thought(self.before_thought(x))


class Gpt(nn.Module):
    def __init__(self, width=160, layers=4, heads=4, context=64):
        super().__init__()
        self.context = context
        self.letters = nn.Embedding(256, width)
        self.places = nn.Parameter(0.02 * torch.randn(context, width))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.last = nn.LayerNorm(width)
        nn.init.normal_(self.letters.weight, std=0.02)

    def forward(self, tokens):
        length = tokens.shape[1]
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        x = self.letters(tokens) + self.places[:length]
        for block in self.blocks:
            x = block(x, future)
        return self.last(x) @ self.letters.weight.T  # the same table reads and writes

    def loss(self, windows):
        """The sum over the windows of each one's mean cross-entropy, in nats a byte."""
        scores = self(windows[:, :-1])
        return functional.cross_entropy(scores.flatten(0, 1), windows[:, 1:].flatten()) * len(windows)

    @torch.no_grad()
    def write(self, beginning, length, random, temperature=0.8):
        tokens = torch.tensor([list(beginning.encode())])
        for _ in range(length):
            scores = self(tokens[:, -self.context :])[0, -1] / temperature
            tokens = torch.cat([tokens, torch.multinomial(scores.softmax(0), 1, generator=random)[None]], 1)
        return bytes(tokens[0].tolist()).decode(errors="replace")


def make_gpt(tiny):
    torch.manual_seed(1)
    return Gpt(width=32, layers=2, heads=2, context=32) if tiny else Gpt()


class Text:
    """The first nine tenths of a text are for training, each worker on its own part of them; the rest is for tests."""

    def __init__(self, file, context):
        if file:
            content = pathlib.Path(file).read_bytes()
        else:  # what every Python has: the source of its standard library
            files = sorted(pathlib.Path(os.__file__).parent.glob("*.py"))
            content = b"".join(path.read_bytes() for path in files)
        self.context = context
        tokens = torch.frombuffer(bytearray(content), dtype=torch.uint8)
        cut = len(tokens) - len(tokens) // 10
        self.training, self.test = tokens[:cut], tokens[cut:]

    def windows(self, part, starts):
        return torch.stack([part[start : start + self.context + 1] for start in starts]).long()

    def batch(self, slot, workers, turn, samples):
        """The windows of this worker in this round: the same each time that it is asked for them."""
        own = self.training[len(self.training) * slot // workers : len(self.training) * (slot + 1) // workers]
        random = torch.Generator().manual_seed(turn * workers + slot)
        return self.windows(own, torch.randint(len(own) - self.context, (samples,), generator=random))

    def test_loss(self, gpt, count=100):
        with torch.no_grad():
            windows = self.windows(self.test, torch.linspace(0, len(self.test) - self.context - 1, count).long())
            return gpt.loss(windows).item() / count
