"""ELMo, small and faithful: representations of words from two language models (Peters et al. 2018).

`sentences` turns sentences into arrays, `encoder` words into rows, `bilm` is two language models, `mix` the softmax
mixture of their layers that a task reads, `published` reads and writes ELMo's released weights. Uses the layers and
stacks of `nn`, and a tape to prove what each prediction sees.
"""

from ...data.vocabulary import Mark, Vocabulary
from .bilm import BiLM
from .encoder import CharEncoder, Highway, WordEncoder
from .mix import Elmo, ScalarMix

__all__ = ["BiLM", "CharEncoder", "Elmo", "Highway", "Mark", "ScalarMix", "Vocabulary", "WordEncoder"]
