"""Layers: modules, recurrent cells and stacks, losses, ELMo."""

from .cells import Gate, GRUCell, LSTMCell, LSTMState, RNNCell
from .elmo import BiLM, CharEncoder, Elmo, Highway, ScalarMix, WordEncoder
from .init import glorot, orthogonal
from .layers import Dropout, Embedding, LayerNorm, Linear
from .loss import bce_with_logits, cross_entropy, mse
from .module import Module
from .recurrent import GRU, LSTM, RNN, Stack
from .sentences import Mark, Vocabulary
from .torch_layout import from_torch_state, to_torch_state
from .unrolling import chunks, unroll

__all__ = [
    "GRU", "LSTM", "RNN", "BiLM", "CharEncoder", "Dropout", "Elmo", "Embedding", "GRUCell", "Gate", "Highway",
    "LSTMCell", "LSTMState", "LayerNorm", "Linear", "Mark", "Module", "RNNCell", "ScalarMix", "Stack", "Vocabulary",
    "WordEncoder", "bce_with_logits", "chunks", "cross_entropy", "from_torch_state", "glorot", "mse", "orthogonal",
    "to_torch_state", "unroll",
]  # fmt: skip
