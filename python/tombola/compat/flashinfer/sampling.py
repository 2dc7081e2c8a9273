"""flashinfer.sampling over tombola. `deterministic` and `enable_pdl` are accepted and change nothing:
results are always the same bits, and launches overlap where the device can."""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple, Union

import torch

import tombola

from ._arguments import Seed, parameter, randomness, refuse_nan, row_index, source

Sampled = Union[torch.Tensor, Tuple[torch.Tensor, torch.Tensor]]

_ORDERS = {"top_k_first": {}, "joint": {"order": ("top_k_top_p",)}}  # the first is the default order


def softmax(
    logits: torch.Tensor,
    temperature: Optional[Union[torch.Tensor, float]] = None,
    enable_pdl: Optional[bool] = None,
) -> torch.Tensor:
    """softmax(logits / temperature) as float32, of shape (batch_size, vocab_size). temperature is a scalar
    or a tensor (batch_size,); 0 gives all of the probability to the greatest logit."""
    logits = source(logits, "logits")
    if temperature is not None:
        temperature = parameter(temperature, logits.size(0), torch.float32)
    return tombola.softmax(logits, temperature=temperature)


def sampling_from_logits(
    logits: torch.Tensor,
    indices: Optional[torch.Tensor] = None,
    deterministic: bool = True,
    generator: Optional[torch.Generator] = None,
    check_nan: bool = False,
    seed: Optional[Seed] = None,
    offset: Optional[Seed] = None,
) -> torch.Tensor:
    """Draws from softmax(logits): a token of each row, or of row indices[i] for output i."""
    if check_nan:
        refuse_nan(logits, "logits")
    return _sample(logits, "logits", {}, indices, generator, seed, offset)


def sampling_from_probs(
    probs: torch.Tensor,
    indices: Optional[torch.Tensor] = None,
    deterministic: bool = True,
    generator: Optional[torch.Generator] = None,
    check_nan: bool = False,
    seed: Optional[Seed] = None,
    offset: Optional[Seed] = None,
    return_valid: bool = False,
) -> Sampled:
    """Draws in proportion to probs, which need not sum to 1."""
    if check_nan:
        refuse_nan(probs, "probs")
    return _sample(probs, "probabilities", {}, indices, generator, seed, offset, return_valid)


def top_p_sampling_from_probs(
    probs: torch.Tensor,
    top_p: Union[torch.Tensor, float],
    indices: Optional[torch.Tensor] = None,
    deterministic: bool = True,
    generator: Optional[torch.Generator] = None,
    check_nan: bool = False,
    seed: Optional[Seed] = None,
    offset: Optional[Seed] = None,
    return_valid: bool = False,
) -> Sampled:
    """Draws from the fewest greatest tokens that have top_p of the mass."""
    if check_nan:
        refuse_nan(probs, "probs")
    chain = {"top_p": parameter(top_p, probs.size(0), torch.float32, indices)}
    return _sample(probs, "probabilities", chain, indices, generator, seed, offset, return_valid)


def top_k_sampling_from_probs(
    probs: torch.Tensor,
    top_k: Union[torch.Tensor, int],
    indices: Optional[torch.Tensor] = None,
    deterministic: bool = True,
    generator: Optional[torch.Generator] = None,
    check_nan: bool = False,
    seed: Optional[Seed] = None,
    offset: Optional[Seed] = None,
    return_valid: bool = False,
) -> Sampled:
    """Draws from the top_k greatest tokens and those that tie with the last of them."""
    if check_nan:
        refuse_nan(probs, "probs")
    chain = {"top_k": parameter(top_k, probs.size(0), torch.int32, indices)}
    return _sample(probs, "probabilities", chain, indices, generator, seed, offset, return_valid)


def min_p_sampling_from_probs(
    probs: torch.Tensor,
    min_p: Union[torch.Tensor, float],
    indices: Optional[torch.Tensor] = None,
    deterministic: bool = True,
    generator: Optional[torch.Generator] = None,
    check_nan: bool = False,
    seed: Optional[Seed] = None,
    offset: Optional[Seed] = None,
    return_valid: bool = False,
) -> Sampled:
    """Draws from the tokens of at least min_p times the greatest probability."""
    if check_nan:
        refuse_nan(probs, "probs")
    chain = {"min_p": parameter(min_p, probs.size(0), torch.float32, indices)}
    return _sample(probs, "probabilities", chain, indices, generator, seed, offset, return_valid)


def top_k_top_p_sampling_from_logits(
    logits: torch.Tensor,
    top_k: Union[torch.Tensor, int],
    top_p: Union[torch.Tensor, float],
    indices: Optional[torch.Tensor] = None,
    filter_apply_order: str = "top_k_first",
    deterministic: bool = True,
    generator: Optional[torch.Generator] = None,
    check_nan: bool = False,
    seed: Optional[Seed] = None,
    offset: Optional[Seed] = None,
) -> torch.Tensor:
    """top_k, then top_p of the mass that top_k left ("top_k_first"), or both on all tokens ("joint")."""
    chain = _top_k_top_p(logits, top_k, top_p, indices, filter_apply_order)
    if check_nan:
        refuse_nan(logits, "logits")
    return _sample(logits, "logits", chain, indices, generator, seed, offset)


def top_k_top_p_sampling_from_probs(
    probs: torch.Tensor,
    top_k: Union[torch.Tensor, int],
    top_p: Union[torch.Tensor, float],
    indices: Optional[torch.Tensor] = None,
    filter_apply_order: str = "top_k_first",
    deterministic: bool = True,
    generator: Optional[torch.Generator] = None,
    check_nan: bool = False,
    seed: Optional[Seed] = None,
    offset: Optional[Seed] = None,
    return_valid: bool = False,
) -> Sampled:
    """top_k, then top_p of the mass that top_k left ("top_k_first"), or both on all tokens ("joint")."""
    chain = _top_k_top_p(probs, top_k, top_p, indices, filter_apply_order)
    if check_nan:
        refuse_nan(probs, "probs")
    return _sample(probs, "probabilities", chain, indices, generator, seed, offset, return_valid)


def top_p_renorm_probs(
    probs: torch.Tensor, top_p: Union[torch.Tensor, float], is_deterministic: bool = False
) -> torch.Tensor:
    """The probabilities of the tokens that top_p keeps, summing to 1, as float32; 0 elsewhere."""
    probs = source(probs, "probs")
    value = parameter(top_p, probs.size(0), torch.float32)
    return tombola.renorm(probs, kind="probabilities", top_p=value)


def top_k_renorm_probs(probs: torch.Tensor, top_k: Union[torch.Tensor, int]) -> torch.Tensor:
    """The probabilities of the tokens that top_k keeps, summing to 1, in probs' type; 0 elsewhere."""
    dtype = probs.dtype
    probs = source(probs, "probs")
    value = parameter(top_k, probs.size(0), torch.int32)
    result = tombola.renorm(probs, kind="probabilities", top_k=value)
    return result if dtype is torch.float32 else result.to(dtype)


def top_k_mask_logits(logits: torch.Tensor, top_k: Union[torch.Tensor, int]) -> torch.Tensor:
    """A copy of logits with -inf outside of the tokens that top_k keeps."""
    dtype = logits.dtype
    logits = source(logits, "logits")
    value = parameter(top_k, logits.size(0), torch.int32)
    result = tombola.mask(logits, top_k=value)
    return result if dtype is logits.dtype else result.to(dtype)


top_p_renorm_prob = top_p_renorm_probs
top_k_renorm_prob = top_k_renorm_probs


def chain_speculative_sampling(
    draft_probs: torch.Tensor,
    draft_token_ids: torch.Tensor,
    target_probs: torch.Tensor,
    maybe_output_accepted_token_num: Optional[torch.Tensor] = None,
    maybe_output_emitted_draft_token_num: Optional[torch.Tensor] = None,
    deterministic: bool = True,
    generator: Optional[torch.Generator] = None,
    seed: Optional[Seed] = None,
    offset: Optional[Seed] = None,
) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Not there yet."""
    raise NotImplementedError(
        "chain_speculative_sampling needs tombola's verification of drafts (acceptance, residual and "
        "bonus draws), which this version of the library does not have"
    )


def _top_k_top_p(
    x: torch.Tensor,
    top_k: Union[torch.Tensor, int],
    top_p: Union[torch.Tensor, float],
    indices: Optional[torch.Tensor],
    order: str,
) -> Dict[str, Any]:
    if order not in _ORDERS:
        raise ValueError(f'filter_apply_order must be "top_k_first" or "joint", got {order!r}')
    return {
        "top_k": parameter(top_k, x.size(0), torch.int32, indices),
        "top_p": parameter(top_p, x.size(0), torch.float32, indices),
        **_ORDERS[order],
    }


def _sample(
    x: torch.Tensor,
    kind: str,
    chain: Dict[str, Any],
    indices: Optional[torch.Tensor],
    generator: Optional[torch.Generator],
    seed: Optional[Seed],
    offset: Optional[Seed],
    return_valid: bool = False,
) -> Sampled:
    x = source(x, "probs" if kind == "probabilities" else kind)
    rows = x.size(0) if indices is None else indices.size(0)
    draw = randomness(rows, x.device, generator, seed, offset, chain)
    tokens = tombola.sample(x, kind=kind, rows=row_index(indices), **chain, **draw)
    # A row without a token has -1, which FlashInfer's callers do not expect: they get token 0, as from
    # FlashInfer, and valid says so.
    valid = tokens >= 0 if return_valid else None
    samples = torch.relu_(tokens)  # clamp_ takes longer on the host
    if indices is not None:
        samples = samples.to(indices.dtype)
    return samples if valid is None else (samples, valid)
