"""The sampling and top-k functions of FlashInfer 0.6, computed by tombola.

Names, arguments, defaults and shapes are FlashInfer's, so that a program changes one line::

    from tombola.compat import flashinfer  # in place of: import flashinfer

    tokens = flashinfer.sampling.top_k_top_p_sampling_from_logits(logits, top_k=50, top_p=0.9)

Nothing is compiled at run time, tensors may lie on a GPU or on the CPU, and results are those of
docs/law.md. docs/flashinfer.md says what differs and what is missing.
"""

from . import sampling, topk
from .sampling import (
    chain_speculative_sampling,
    min_p_sampling_from_probs,
    sampling_from_logits,
    sampling_from_probs,
    softmax,
    top_k_mask_logits,
    top_k_renorm_probs,
    top_k_sampling_from_probs,
    top_k_top_p_sampling_from_logits,
    top_k_top_p_sampling_from_probs,
    top_p_renorm_probs,
    top_p_sampling_from_probs,
)
from .topk import TopKTieBreak, top_k, top_k_page_table_transform, top_k_ragged_transform

__all__ = [
    "TopKTieBreak",
    "chain_speculative_sampling",
    "min_p_sampling_from_probs",
    "sampling",
    "sampling_from_logits",
    "sampling_from_probs",
    "softmax",
    "top_k",
    "top_k_mask_logits",
    "top_k_page_table_transform",
    "top_k_ragged_transform",
    "top_k_renorm_probs",
    "top_k_sampling_from_probs",
    "top_k_top_p_sampling_from_logits",
    "top_k_top_p_sampling_from_probs",
    "top_p_renorm_probs",
    "top_p_sampling_from_probs",
    "topk",
]
