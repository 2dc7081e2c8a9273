"""flashinfer.sampling over tombola. `deterministic` and `enable_pdl` are accepted and change nothing:
results are always the same bits, and launches overlap where the device can."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple, Union

import torch

from . import _engine
from ._arguments import Seed, parameter, randomness, refuse_nan, row_index, source

Sampled = Union[torch.Tensor, Tuple[torch.Tensor, torch.Tensor]]


def softmax(
    logits: torch.Tensor,
    temperature: Optional[Union[torch.Tensor, float]] = None,
    enable_pdl: Optional[bool] = None,
) -> torch.Tensor:
    """softmax(logits / temperature) as float32, of shape (batch_size, vocab_size). temperature is a scalar
    or a tensor (batch_size,); 0 gives all of the probability to the greatest logit."""
    logits = source(logits, "logits")
    value = parameter(1.0 if temperature is None else temperature, logits.size(0), torch.float32)
    return _probabilities(logits, _engine.LOGITS, [_engine.temperature(value)])


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
    return _sample(logits, _engine.LOGITS, [], indices, generator, seed, offset)


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
    return _sample(probs, _engine.PROBABILITIES, [], indices, generator, seed, offset, return_valid)


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
    steps = [_engine.top_p(parameter(top_p, probs.size(0), torch.float32, indices))]
    return _sample(probs, _engine.PROBABILITIES, steps, indices, generator, seed, offset, return_valid)


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
    steps = [_engine.top_k(parameter(top_k, probs.size(0), torch.int32, indices))]
    return _sample(probs, _engine.PROBABILITIES, steps, indices, generator, seed, offset, return_valid)


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
    steps = [_engine.min_p(parameter(min_p, probs.size(0), torch.float32, indices))]
    return _sample(probs, _engine.PROBABILITIES, steps, indices, generator, seed, offset, return_valid)


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
    steps = _top_k_top_p(logits, top_k, top_p, indices, filter_apply_order)
    if check_nan:
        refuse_nan(logits, "logits")
    return _sample(logits, _engine.LOGITS, steps, indices, generator, seed, offset)


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
    steps = _top_k_top_p(probs, top_k, top_p, indices, filter_apply_order)
    if check_nan:
        refuse_nan(probs, "probs")
    return _sample(probs, _engine.PROBABILITIES, steps, indices, generator, seed, offset, return_valid)


def top_p_renorm_probs(
    probs: torch.Tensor, top_p: Union[torch.Tensor, float], is_deterministic: bool = False
) -> torch.Tensor:
    """The probabilities of the tokens that top_p keeps, summing to 1, as float32; 0 elsewhere."""
    probs = source(probs, "probs")
    value = parameter(top_p, probs.size(0), torch.float32)
    return _probabilities(probs, _engine.PROBABILITIES, [_engine.top_p(value)])


def top_k_renorm_probs(probs: torch.Tensor, top_k: Union[torch.Tensor, int]) -> torch.Tensor:
    """The probabilities of the tokens that top_k keeps, summing to 1, in probs' type; 0 elsewhere."""
    dtype = probs.dtype
    probs = source(probs, "probs")
    value = parameter(top_k, probs.size(0), torch.int32)
    return _probabilities(probs, _engine.PROBABILITIES, [_engine.top_k(value)]).to(dtype)


def top_k_mask_logits(logits: torch.Tensor, top_k: Union[torch.Tensor, int]) -> torch.Tensor:
    """A copy of logits with -inf outside of the tokens that top_k keeps."""
    dtype = logits.dtype
    logits = source(logits, "logits")
    value = parameter(top_k, logits.size(0), torch.int32)
    masked = torch.empty(logits.shape, dtype=logits.dtype, device=logits.device)
    _engine.run(logits, _engine.LOGITS, [_engine.top_k(value)], masked=masked)
    return masked.to(dtype)


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
) -> List[Any]:
    k = parameter(top_k, x.size(0), torch.int32, indices)
    p = parameter(top_p, x.size(0), torch.float32, indices)
    if order == "top_k_first":
        return [_engine.top_k(k), _engine.top_p(p)]
    if order == "joint":
        return [_engine.top_k_top_p(k, p)]
    raise ValueError(f'filter_apply_order must be "top_k_first" or "joint", got {order!r}')


def _sample(
    x: torch.Tensor,
    kind: int,
    steps: List[Any],
    indices: Optional[torch.Tensor],
    generator: Optional[torch.Generator],
    seed: Optional[Seed],
    offset: Optional[Seed],
    return_valid: bool = False,
) -> Sampled:
    x = source(x, "logits" if kind == _engine.LOGITS else "probs")
    rows = x.size(0) if indices is None else indices.size(0)
    tokens = torch.empty(rows, dtype=torch.int32, device=x.device)
    if rows > 0:
        _engine.run(
            x,
            kind,
            steps,
            rows=rows,
            row_index=row_index(indices),
            randomness=randomness(rows, x.device, generator, seed, offset),
            tokens=tokens,
        )
    # A row without a token has -1, which FlashInfer's callers do not expect: they get token 0, as from
    # FlashInfer, and valid says so.
    valid = tokens >= 0 if return_valid else None
    samples = tokens.clamp_(min=0)
    if indices is not None:
        samples = samples.to(indices.dtype)
    return samples if valid is None else (samples, valid)


def _probabilities(x: torch.Tensor, kind: int, steps: List[Any]) -> torch.Tensor:
    out = torch.empty(x.shape, dtype=torch.float32, device=x.device)
    _engine.run(x, kind, steps, probabilities=out)
    return out
