"""A decoding loop in which every request has its own sampling parameters.

    python examples/python/decode_torch.py [cpu | cuda]

The model is small and random, with the call signature of the causal models of Hugging Face's transformers, so that one
of those can take its place. Each request has a seed; the offset is the position of the token. So a request's tokens
are the same whichever requests share its batch, and whatever slot it has, as far as the model's logits are.
"""

import sys
from types import SimpleNamespace

import torch

import tombola


class TinyCausalLM(torch.nn.Module):
    """One layer of attention over random weights."""

    def __init__(self, vocab_size=32000, width=64, max_length=512):
        super().__init__()
        self.tokens = torch.nn.Embedding(vocab_size, width)
        self.positions = torch.nn.Embedding(max_length, width)
        self.attention = torch.nn.MultiheadAttention(width, num_heads=4, batch_first=True)
        self.head = torch.nn.Linear(width, vocab_size, bias=False)

    def forward(self, input_ids, past_key_values=None):
        start = 0 if past_key_values is None else past_key_values.size(1)
        length = input_ids.size(1)
        place = torch.arange(start, start + length, device=input_ids.device)
        x = self.tokens(input_ids) + self.positions(place)
        context = x if past_key_values is None else torch.cat([past_key_values, x], dim=1)
        future = torch.arange(start + length, device=x.device) > place.unsqueeze(1)
        y, _ = self.attention(x, context, context, attn_mask=future, need_weights=False)
        return SimpleNamespace(logits=self.head(x + y) * 4, past_key_values=context)


@torch.inference_mode()
def generate(model, input_ids, *, max_new_tokens, seeds, **parameters):
    """Continues the prompts (batch, length). Every parameter of tombola.sample is a number, or a tensor
    (batch,) with one for each request."""
    positions = torch.full_like(seeds, input_ids.size(1))
    tokens, logprobs = [], []
    out = model(input_ids)
    for step in range(max_new_tokens):
        # The last position's logits are a slice with a distance between rows: read where they lie.
        drawn = tombola.sample(
            out.logits[:, -1], seed=seeds, offset=positions, return_logprobs=True, **parameters
        )
        tokens.append(drawn.tokens)
        logprobs.append(drawn.logprobs)
        positions += 1
        if step + 1 < max_new_tokens:
            out = model(drawn.tokens.long().unsqueeze(1), past_key_values=out.past_key_values)
    return torch.stack(tokens, dim=1), torch.stack(logprobs, dim=1)


def main(device="cuda" if torch.cuda.is_available() else "cpu", max_new_tokens=16):
    torch.manual_seed(0)
    model = TinyCausalLM().to(device).eval()
    prompts = torch.randint(32000, (4, 12), device=device)
    requests = {
        # greedy; a wide nucleus; top-k and top-p; min-p alone
        "temperature": torch.tensor([0.0, 1.0, 0.7, 1.2], device=device),
        "top_k": torch.tensor([0, 0, 40, 0], dtype=torch.int32, device=device),
        "top_p": torch.tensor([1.0, 0.95, 0.9, 1.0], device=device),
        "min_p": torch.tensor([0.0, 0.0, 0.0, 0.1], device=device),
        "seeds": torch.tensor([11, 12, 13, 14], device=device),
    }
    tokens, logprobs = generate(model, prompts, max_new_tokens=max_new_tokens, **requests)
    for row in range(len(tokens)):
        print(f"request {row}: {tokens[row].tolist()}")
    return model, prompts, requests, tokens, logprobs


if __name__ == "__main__":
    main(*sys.argv[1:])
