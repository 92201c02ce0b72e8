"""Layers: modules, recurrent cells and stacks, losses, and ELMo in a folder of its own.

`module` finds what is part of a model, `layers` have no time, `cells` are the equations of RNN, LSTM and GRU,
`unrolling` builds the graph of any cell over a sequence, `stack` puts layers above one another and beside, `loss` what
is to become small, `decoding` goes from logits to symbols, `init` has first weights, `torch_layout` takes PyTorch's
weights in and out. Uses the engine.
"""

from typing import TYPE_CHECKING

from ..engine.namespaces import namespace
from .cells import Gate, GRUCell, LSTMCell, LSTMState, RNNCell
from .decoding import Generated, generate, sample
from .init import glorot, orthogonal
from .layers import Dropout, Embedding, LayerNorm, Linear, Sequential
from .loss import bce_with_logits, cross_entropy, entropy, mse
from .module import Module
from .stack import GRU, LSTM, RNN, Stack
from .torch_layout import from_torch_state, to_torch_state
from .unrolling import chunks, last, unroll

if TYPE_CHECKING:
    from .elmo import BiLM, CharEncoder, Elmo, Highway, Mark, ScalarMix, Vocabulary, WordEncoder

__all__ = [
    "GRU", "LSTM", "RNN", "BiLM", "CharEncoder", "Dropout", "Elmo", "Embedding", "GRUCell", "Gate", "Generated",
    "Highway", "LSTMCell", "LSTMState", "LayerNorm", "Linear", "Mark", "Module", "RNNCell", "ScalarMix", "Sequential",
    "Stack", "Vocabulary", "WordEncoder", "bce_with_logits", "chunks", "cross_entropy", "entropy", "from_torch_state",
    "generate", "glorot", "last", "mse", "orthogonal", "sample", "to_torch_state", "unroll",
]  # fmt: skip

_ELMO = ("BiLM", "CharEncoder", "Elmo", "Highway", "Mark", "ScalarMix", "Vocabulary", "WordEncoder")
__getattr__, __dir__ = namespace(__name__, __all__, dict.fromkeys(_ELMO, "elmo"))
