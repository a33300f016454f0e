"""A word-level language network: embedding, two LSTM layers, a decoder that shares the embedding's weights.

The shape of PyTorch's own word_language_model example (200 wide, tied), on WikiText-2's vocabulary. Images are not
everything: a token window costs the loader almost nothing, which is the other end of the papers' range.
"""

from __future__ import annotations

import torch
from torch import nn

WIDTH = 200
LAYERS = 2


class LanguageLSTM(nn.Module):
    """Predicts the next token of every position of a window."""

    def __init__(self, classes: int = 33_278) -> None:
        super().__init__()
        self.encoder = nn.Embedding(classes, WIDTH)
        self.rnn = nn.LSTM(WIDTH, WIDTH, LAYERS, batch_first=True)
        self.decoder = nn.Linear(WIDTH, classes)
        self.decoder.weight = self.encoder.weight
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return scores of shape (batch, classes, window), as cross-entropy wants them."""
        hidden, _ = self.rnn(self.encoder(tokens))
        return self.decoder(hidden).transpose(1, 2)
