"""Layers: modules, recurrent cells and stacks, losses."""

from .init import glorot, orthogonal
from .layers import Dropout, Embedding, LayerNorm, Linear
from .loss import bce_with_logits, cross_entropy, mse
from .module import Module
from .recurrent import GRU, LSTM, RNN, GRUCell, LSTMCell, LSTMState, RNNCell, Stack, chunks, unroll

__all__ = [
    "GRU", "LSTM", "RNN", "Dropout", "Embedding", "GRUCell", "LSTMCell", "LSTMState", "LayerNorm", "Linear", "Module",
    "RNNCell", "Stack", "bce_with_logits", "chunks", "cross_entropy", "glorot", "mse", "orthogonal", "unroll",
]  # fmt: skip
