"""Data for recurrent networks: `tasks` that need a gradient that survives, `text` in chunks, `batches` of sequences of
different lengths, and the `vocabulary` that gives words and characters their numbers.

Layout is time first, (T, B, features). Uses the engine.
"""

from ..engine.namespaces import namespace
from .batches import Batch, batch_by_length, mask, padded
from .tasks import (
    REBER_SYMBOLS,
    TEMPORAL_ORDER_SYMBOLS,
    EmbeddedReber,
    adding_problem,
    embedded_reber,
    one_bit,
    temporal_order,
)
from .text import Chunks, text_chunks
from .vocabulary import Mark, Vocabulary

__all__ = [
    "REBER_SYMBOLS", "TEMPORAL_ORDER_SYMBOLS", "Batch", "Chunks", "EmbeddedReber", "Mark", "Vocabulary",
    "adding_problem", "batch_by_length", "embedded_reber", "mask", "one_bit", "padded", "temporal_order",
    "text_chunks",
]  # fmt: skip
__getattr__, __dir__ = namespace(__name__, __all__, {})
