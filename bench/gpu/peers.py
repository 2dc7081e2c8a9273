"""What tombola is measured beside, each from logits (or probabilities) to the same result: FlashInfer's kernels,
called as its Python package calls them (peer_flashinfer.cu), and PyTorch as vLLM uses it."""

import ctypes

import torch

MIB = 1024 * 1024
FAST_PATH_MAX_K, FAST_PATH_MIN_VOCAB = 256, 65536  # flashinfer/sampling.py


def _pointer(tensor):
    return ctypes.c_void_p(tensor.data_ptr())


def _stream():
    return ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)


class FlashInfer:
    def __init__(self, path, version):
        self.library = ctypes.CDLL(path)
        self.version = version
        self.state = torch.zeros(MIB, dtype=torch.uint8, device="cuda")
        self.workspace = torch.empty(MIB, dtype=torch.uint8, device="cuda")
        self.large = None  # top_p_renorm's workspace
        self.buffers = {}

    def buffer(self, name, shape, dtype):
        key = (name, shape, dtype)
        if key not in self.buffers:
            self.buffers[key] = torch.empty(shape, dtype=dtype, device="cuda")
        return self.buffers[key]

    def call(self, function, *arguments):
        code = getattr(self.library, function)(*arguments, _stream())
        if code:
            raise RuntimeError(f"{function}: CUDA error {code}")

    def softmax(self, logits):
        rows, vocab = logits.shape
        out = self.buffer("probs", (rows, vocab), torch.float32)
        self.call("peer_softmax", _pointer(logits), _pointer(out), rows, vocab, _pointer(self.workspace),
                  ctypes.c_size_t(MIB))
        return out

    def _outputs(self, rows):
        return self.buffer("tokens", (rows,), torch.int32), self.buffer("valid", (rows,), torch.bool)

    def joint(self, logits, k=50, p=0.9):
        probs = self.softmax(logits)
        tokens, valid = self._outputs(logits.shape[0])
        self.call("peer_joint", _pointer(probs), _pointer(tokens), _pointer(valid), logits.shape[0], k,
                  ctypes.c_float(p), logits.shape[1], ctypes.c_uint64(42))
        return tokens

    def _top_p_of(self, probs, p):
        tokens, valid = self._outputs(probs.shape[0])
        self.call("peer_top_p", _pointer(probs), _pointer(tokens), _pointer(valid), probs.shape[0],
                  ctypes.c_float(p), probs.shape[1], ctypes.c_uint64(42))
        return tokens

    def top_p(self, logits, p=0.9):
        return self._top_p_of(self.softmax(logits), p)

    def top_k(self, logits, k=50):
        probs = self.softmax(logits)
        tokens, valid = self._outputs(logits.shape[0])
        self.call("peer_top_k", _pointer(probs), _pointer(tokens), _pointer(valid), logits.shape[0], k,
                  logits.shape[1], ctypes.c_uint64(42))
        return tokens

    def min_p(self, logits, p=0.05):
        probs = self.softmax(logits)
        tokens, valid = self._outputs(logits.shape[0])
        self.call("peer_min_p", _pointer(probs), _pointer(tokens), _pointer(valid), logits.shape[0],
                  ctypes.c_float(p), logits.shape[1], ctypes.c_uint64(42))
        return tokens

    def gumbel(self, logits):
        tokens, _ = self._outputs(logits.shape[0])
        self.call("peer_from_logits", _pointer(logits), _pointer(tokens), logits.shape[0], logits.shape[1],
                  ctypes.c_uint64(42))
        return tokens

    def top_k_first(self, logits, k=50, p=0.9):
        """top_k_top_p_sampling_from_logits(filter_apply_order="top_k_first"), its fast path included."""
        if logits.shape[1] < FAST_PATH_MIN_VOCAB or k > FAST_PATH_MAX_K:
            return self._top_p_of(torch.softmax(self.top_k_mask(logits, k), dim=-1), p)
        ids, values = self.top_k_ids(logits, k)
        local = self._top_p_of(torch.softmax(values, dim=-1), p)
        return ids.long().gather(1, local.view(-1, 1).long()).squeeze(1).to(torch.int32)

    def top_k_ids(self, logits, k=2048):
        rows, vocab = logits.shape
        ids = self.buffer("ids", (rows, k), torch.int32)
        values = self.buffer("values", (rows, k), torch.float32)
        self.call("peer_top_k_ids", _pointer(logits), _pointer(ids), _pointer(values), rows, k, vocab,
                  _pointer(self.state))
        return ids, values

    def top_k_mask(self, logits, k=50):
        out = self.buffer("wide", tuple(logits.shape), torch.float32)
        self.call("peer_top_k_mask", _pointer(logits), _pointer(out), logits.shape[0], k, logits.shape[1],
                  _pointer(self.state))
        return out

    def top_k_renorm(self, probs, k=50):
        out = self.buffer("wide", tuple(probs.shape), torch.float32)
        self.call("peer_top_k_renorm", _pointer(probs), _pointer(out), probs.shape[0], k, probs.shape[1],
                  _pointer(self.state))
        return out

    def top_p_renorm(self, probs, p=0.9):
        rows, vocab = probs.shape
        needed = rows * (384 + 12 * 2048 + 8 * (vocab // 32 + 512)) + 4096  # sampling.py: top_p_renorm_probs
        if self.large is None or self.large.numel() < needed:
            self.large = torch.empty(needed, dtype=torch.uint8, device="cuda")
        out = self.buffer("wide", (rows, vocab), torch.float32)
        self.call("peer_top_p_renorm", _pointer(probs), _pointer(out), rows, ctypes.c_float(p), vocab,
                  _pointer(self.large))
        return out


# ---- PyTorch ----

def _race(logits):
    """vLLM's random_sample: an exponential race instead of torch.multinomial, which synchronises."""
    probs = torch.softmax(logits, dim=-1, dtype=torch.float32)
    return probs.div_(torch.empty_like(probs).exponential_()).argmax(dim=-1)


def torch_sort(logits, k=50, p=0.9):
    """vLLM's apply_top_k_top_p, and a draw."""
    values, order = logits.sort(dim=-1, descending=False)
    if k is not None:
        values = values.masked_fill(values < values[:, values.shape[1] - k:values.shape[1] - k + 1], -float("inf"))
    if p is not None:
        below = values.softmax(dim=-1).cumsum(dim=-1)
        drop = below <= 1 - p
        drop[:, -1] = False
        values = values.masked_fill(drop, -float("inf"))
    return _race(logits.scatter(dim=-1, index=order, src=values))


def contestants(flashinfer, name):
    """{label: function of the input} for a name of the harness."""
    found = {}
    if flashinfer:
        f = flashinfer
        found = {
            "k50_p0.9": {"flashinfer joint": f.joint, "flashinfer top_k_first": f.top_k_first},
            "p0.9": {"flashinfer top_p": f.top_p},
            "k50": {"flashinfer top_k": f.top_k},
            "min_p0.05": {"flashinfer min_p": f.min_p},
            "no_filter": {"flashinfer gumbel": f.gumbel},
            "softmax": {"flashinfer softmax": f.softmax},
            "top_p_renorm": {"flashinfer top_p_renorm_probs": f.top_p_renorm},
            "top_k_renorm": {"flashinfer top_k_renorm_probs": f.top_k_renorm},
            "top_k_mask": {"flashinfer top_k_mask_logits": f.top_k_mask},
            "top_k_ids": {"flashinfer top_k": f.top_k_ids},
            "top_k_ids_sorted": {"flashinfer top_k": f.top_k_ids},
        }.get(name, {})
    found = dict(found)
    found.update({
        "k50_p0.9": {"torch sort": torch_sort},
        "p0.9": {"torch sort": lambda x: torch_sort(x, k=None)},
        "k50": {"torch sort": lambda x: torch_sort(x, p=None)},
        "no_filter": {"torch softmax": _race},
        "greedy": {"torch argmax": lambda x: x.argmax(dim=-1)},
        "softmax": {"torch softmax": lambda x: torch.softmax(x, dim=-1)},
        "top_k_ids": {"torch topk": lambda x: torch.topk(x, 2048, dim=-1)},
        "top_k_ids_sorted": {"torch topk": lambda x: torch.topk(x, 2048, dim=-1)},
    }.get(name, {}))
    return found
