"""A rollout for reinforcement learning that keeps what the trainer needs of each sampled token.

    python examples/python/rl_rollout.py [cpu | cuda]

A policy gradient needs log-probabilities under the distribution that was sampled from. With top-k, top-p or min-p that
is the model's distribution restricted to the kept tokens, so the rollout stores, besides the log-probability, the
kept ids of every step, packed without padding (CSR). The trainer restricts its own logits to the same ids.
"""

import sys

import torch

import tombola


def pack(ids, counts):
    """CSR of padded kept ids (rows, capacity): row r has values[offsets[r]:offsets[r + 1]]."""
    if int(counts.max()) > ids.size(1):
        raise ValueError(f"{int(counts.max())} tokens kept, and there is room for {ids.size(1)}")
    offsets = torch.zeros(len(counts) + 1, dtype=torch.int64, device=ids.device)
    offsets[1:] = counts.cumsum(0)
    return offsets, ids[ids >= 0]


def kept_logprobs(logits, temperature, tokens, offsets, values):
    """log-probability of tokens (rows,) under softmax(logits / temperature) restricted to the packed ids;
    differentiable in logits."""
    scaled = logits.float() / temperature
    counts = offsets.diff()
    rows = torch.arange(len(counts), device=logits.device).repeat_interleave(counts)
    kept = scaled[rows, values.long()]
    greatest = torch.full_like(scaled[:, 0], -torch.inf).scatter_reduce(0, rows, kept.detach(), "amax")
    mass = torch.zeros_like(greatest).index_add(0, rows, (kept - greatest[rows]).exp())
    return scaled.gather(1, tokens.long().unsqueeze(1)).squeeze(1) - greatest - mass.log()


def rollout(policy, state, steps, seeds, **parameters):
    """Samples `steps` tokens for each row of state. Returns a list with what is known of each step."""
    memory = []
    for step in range(steps):
        logits = policy(state)
        drawn = tombola.sample(
            logits, seed=seeds, offset=torch.full_like(seeds, step), return_logprobs=True, return_kept=512,
            **parameters,
        )  # fmt: skip
        offsets, values = pack(drawn.kept_ids, drawn.kept_counts)
        memory.append({"tokens": drawn.tokens, "logprobs": drawn.logprobs, "offsets": offsets, "kept": values})
        state = (state + torch.nn.functional.one_hot(drawn.tokens.long() % 64, 64)) * 0.5
    return memory


def main(device="cuda" if torch.cuda.is_available() else "cpu", rows=16, steps=4):
    torch.manual_seed(0)
    policy = torch.nn.Linear(64, 32000).to(device)
    policy.weight.data *= 20
    state = torch.randn(rows, 64, device=device)
    seeds = torch.arange(rows, device=device)
    parameters = {"temperature": 0.9, "top_k": 100, "top_p": 0.95}
    with torch.no_grad():
        memory = rollout(policy, state, steps, seeds, **parameters)

    # The trainer: the first step's loss with a made-up advantage, from logits of the same policy.
    first = memory[0]
    current = kept_logprobs(policy(state), 0.9, first["tokens"], first["offsets"], first["kept"])
    error = (current - first["logprobs"]).abs().max().item()
    ratio = (current - first["logprobs"]).exp()
    advantage = torch.randn(rows, device=device)
    (-ratio * advantage).mean().backward()
    sizes = first["offsets"].diff()
    print(f"kept {sizes.min()} to {sizes.max()} tokens a row; trainer and sampler differ by at most {error:.1e}")
    return memory, error, policy.weight.grad


if __name__ == "__main__":
    main(*sys.argv[1:])
