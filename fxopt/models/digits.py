"""Two small classifiers of handwritten digits, written so that each pass has something to look at."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class ConvNormReLU(nn.Module):
    """Convolution, batch norm, ReLU: the batch norm can be folded into the convolution."""

    def __init__(self, channels_in: int, channels_out: int, bias: bool) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, kernel_size=3, padding=1, bias=bias)
        self.norm = nn.BatchNorm2d(channels_out)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.relu(self.norm(self.conv(x)))


class ResidualBlock(nn.Module):
    """Two convolutions beside a shortcut; each has a batch norm that can be folded."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = ConvNormReLU(channels, channels, bias=False)
        self.conv = nn.Conv2d(channels, channels, kernel_size=3, padding=1)
        self.norm = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.relu(x + self.norm(self.conv(self.first(x))))


class ForkedBlock(nn.Module):
    """A near miss: the sum needs the convolution's output as it is before batch norm."""

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, kernel_size=3, padding=1)
        self.norm = nn.BatchNorm2d(channels_out)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        return self.relu(x + self.norm(x))


class PreNormBlock(nn.Module):
    """Another near miss: `norm` comes before any convolution, so the fold has no target."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU()
        self.conv = ConvNormReLU(channels, channels, bias=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(self.relu(self.norm(x)))


class Head(nn.Module):
    """Linear, batch norm, ReLU, dropout, and the scores of the ten digits."""

    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(features, hidden)
        self.norm = nn.BatchNorm1d(hidden)
        self.relu = nn.ReLU()
        self.dropout = nn.Dropout(0.2)
        self.scores = nn.Linear(hidden, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.scores(self.dropout(self.relu(self.norm(self.hidden(x)))))


class DigitsConvNet(nn.Module):
    """Images of shape (batch, 1, 8, 8), values from 0 to 1, to the scores of the ten digits."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = ConvNormReLU(1, 16, bias=True)
        self.residual = ResidualBlock(16)
        self.pool = nn.MaxPool2d(2)
        self.forked = ForkedBlock(16, 32)
        self.pre_norm = PreNormBlock(32)
        self.head = Head(32 * 2 * 2, 64)

    def forward(self, images: Tensor) -> Tensor:
        x = self.pool(self.residual(self.stem(images)))
        x = self.pool(self.forked(x))
        return self.head(self.pre_norm(x).flatten(1))


class SelfAttention(nn.Module):
    """Attention whose query, key and value are three linears on one input, which can be merged."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.head_width = heads, width // heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (
            linear(x).unflatten(-1, (self.heads, self.head_width)).transpose(1, 2)
            for linear in (self.query, self.key, self.value)
        )
        scores = query @ key.transpose(-1, -2) / math.sqrt(self.head_width)
        return self.out((scores.softmax(-1) @ value).transpose(1, 2).flatten(2))


class TransformerBlock(nn.Module):
    """Attention, then a perceptron, each on normalized input and beside a shortcut."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = SelfAttention(width, heads)
        self.perceptron_norm = nn.LayerNorm(width)
        self.expand = nn.Linear(width, 2 * width)
        self.gelu = nn.GELU()
        self.contract = nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.contract(self.gelu(self.expand(self.perceptron_norm(x))))


class DigitsTransformer(nn.Module):
    """Transformer from images of shape (batch, 1, 8, 8), cut into 16 patches, to the scores of the ten digits.

    A head is 12 wide, so the scores are divided by the square root of 12, whose inverse is rounded.
    """

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, 48, kernel_size=2, stride=2)
        self.positions = nn.Parameter(torch.zeros(1, 16, 48))
        self.block1 = TransformerBlock(48, heads=4)
        self.block2 = TransformerBlock(48, heads=4)
        self.norm = nn.LayerNorm(48)
        self.scores = nn.Linear(48, 10)

    def forward(self, images: Tensor) -> Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2) + self.positions
        x = self.block2(self.block1(x))
        return self.scores(self.norm(x).mean(1))
