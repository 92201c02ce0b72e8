"""ELMo, small and faithful: representations of words from two language models (Peters et al. 2018).

`sentences` makes arrays of sentences, `encoder` a row of a word, `bilm` two language models, `mix` the softmax mixture
of their layers that a task reads. Uses the layers and stacks of `nn`, and a tape to prove what each prediction sees.
"""

from .bilm import BiLM
from .encoder import CharEncoder, Highway, WordEncoder
from .mix import Elmo, ScalarMix
from .sentences import Mark, Vocabulary

__all__ = ["BiLM", "CharEncoder", "Elmo", "Highway", "Mark", "ScalarMix", "Vocabulary", "WordEncoder"]
