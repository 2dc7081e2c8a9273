"""The GPU benchmark (scripts/gpu_bench.sh runs it): tombola, its peers and the read floor in one process.

Each figure is the time of one call inside a CUDA graph of at least 8 calls, which take turns over inputs that
together exceed the L2 cache, so each call reads its input from memory; the median of 5 replays after 2. The
"warm" figure repeats one input, as when the logits have just been written. Microseconds.

    bench.py --harness LIB --floor LIB [--flashinfer LIB VERSION] [--quick] [--only TEXT] [--seconds N] OUTPUT.json
"""

import argparse
import ctypes
import datetime
import json
import pathlib
import statistics
import subprocess
import sys
import time

import torch

import inputs
import peers

COLD_BYTES = 160 << 20  # more than any L2
BATCHES = (1, 8, 32, 64, 128, 256, 512)
VOCAB = 128256
SAMPLERS = ("k50_p0.9", "p0.9", "k50", "min_p0.05", "no_filter", "greedy")
OPERATORS = ("softmax", "top_p_renorm", "top_k_renorm", "top_k_mask")
DTYPES = {"f32": (0, torch.float32), "f16": (1, torch.float16), "bf16": (2, torch.bfloat16)}
REPLAYS, WARM_UP = 5, 2


class Request(ctypes.Structure):
    """bench_request of harness.c."""
    _fields_ = [("name", ctypes.c_char_p), ("data", ctypes.c_void_p), ("rows", ctypes.c_int64),
                ("vocab_size", ctypes.c_int64), ("offset", ctypes.c_uint64), ("tokens", ctypes.c_void_p),
                ("wide", ctypes.c_void_p), ("k", ctypes.c_void_p), ("p", ctypes.c_void_p),
                ("temperature", ctypes.c_void_p), ("workspace", ctypes.c_void_p),
                ("workspace_size", ctypes.c_uint64), ("stream", ctypes.c_void_p), ("dtype", ctypes.c_int32),
                ("dependent", ctypes.c_int32)]


def sources_sha256():
    """Tells of figures of several runs whether they are of the same kernels."""
    script = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "receipt_hash.py"
    return subprocess.run([sys.executable, script], capture_output=True, text=True, check=True).stdout.strip()


class Refused(Exception):
    pass


class Tombola:
    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.bench_open.restype = ctypes.c_void_p
        self.library.bench_workspace.restype = ctypes.c_int64
        self.text = ctypes.create_string_buffer(512)
        torch.cuda.current_stream().synchronize()  # makes torch's context the current one
        self.context = ctypes.c_void_p(self.library.bench_open(self.text, ctypes.c_uint64(512)))
        if not self.context:
            raise SystemExit(self.text.value.decode())
        self.tokens = torch.empty(4096, dtype=torch.int32, device="cuda")
        self.wide = torch.empty(512 * 262144, dtype=torch.float32, device="cuda")
        self.workspace = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
        generator = torch.Generator().manual_seed(5)
        self.k = torch.randint(0, 200, (4096,), generator=generator).int().cuda()
        self.p = (0.3 + 0.8 * torch.rand(4096, generator=generator)).cuda()
        self.temperature = torch.tensor([0.0, 0.7, 1.0, 1.3]).repeat(1024).cuda()

    def request(self, name, data, dtype, dependent=0):
        r = Request(name=name.encode(), data=data.data_ptr(), rows=data.shape[0], vocab_size=data.shape[1],
                    tokens=self.tokens.data_ptr(), wide=self.wide.data_ptr(), k=self.k.data_ptr(),
                    p=self.p.data_ptr(), temperature=self.temperature.data_ptr(),
                    workspace=self.workspace.data_ptr(), dtype=dtype, dependent=dependent)
        size = self.library.bench_workspace(self.context, ctypes.byref(r), self.text, ctypes.c_uint64(512))
        if size < 0 or size > self.workspace.numel():
            raise Refused(self.text.value.decode() if size < 0 else f"a workspace of {size} bytes")
        r.workspace_size = size
        return r

    def plan(self, name, data, dtype):
        r = self.request(name, data, dtype)
        self.library.bench_plan(self.context, ctypes.byref(r), self.text, ctypes.c_uint64(512))
        return self.text.value.decode()

    def run(self, name, data, dtype, offset, dependent=0):
        r = self.request(name, data, dtype, dependent)
        r.offset = offset
        r.stream = torch.cuda.current_stream().cuda_stream
        if self.library.bench_run(self.context, ctypes.byref(r), self.text, ctypes.c_uint64(512)):
            raise Refused(self.text.value.decode())


def time_graph(calls):
    """Microseconds of one of the calls (functions without arguments)."""
    calls[0]()  # loads and allocates what is loaded and allocated once
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    times = []
    for replay in range(WARM_UP + REPLAYS):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        if replay >= WARM_UP:
            times.append(start.elapsed_time(end) * 1000 / len(calls))
    graph.reset()
    return statistics.median(times)


class Bench:
    def __init__(self, arguments):
        torch.cuda.init()
        self.tombola = Tombola(arguments.harness)
        self.floor_library = ctypes.CDLL(arguments.floor)
        self.flashinfer = peers.FlashInfer(*arguments.flashinfer) if arguments.flashinfer else None
        self.only = arguments.only
        self.end, self.not_run = time.monotonic() + arguments.seconds, 0
        self.sink = torch.zeros(1, dtype=torch.int32, device="cuda")
        self.floors, self.figures = {}, []
        self.key, self.data = None, None

    def input(self, distribution, batch, vocab, dtype, probabilities):
        """The slices that the calls take turns over."""
        element = 4 if dtype == "f32" else 2
        calls = max(8, -(-COLD_BYTES // (batch * vocab * element)))
        key = (distribution, vocab, dtype, probabilities)
        if self.key != key or self.data.shape[0] < calls * batch:
            self.data = None
            self.data = inputs.make(distribution, max(calls * batch, 8 * 256), vocab, DTYPES[dtype][1])
            if probabilities:
                for first in range(0, self.data.shape[0], 256):
                    self.data[first:first + 256] = torch.softmax(self.data[first:first + 256], dim=-1)
            self.key = key
        return [self.data[i * batch:(i + 1) * batch] for i in range(calls)]

    def floor(self, slices, batch, vocab, dtype):
        key = (batch, vocab, dtype)
        if key not in self.floors:
            size = ctypes.c_uint64(slices[0].numel() * slices[0].element_size())

            def read(shape, data):
                code = self.floor_library.read_floor(shape, ctypes.c_void_p(data.data_ptr()), size,
                                                     ctypes.c_void_p(self.sink.data_ptr()),
                                                     ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
                if code:
                    raise RuntimeError(f"read_floor: CUDA error {code}")
            self.floors[key] = min(time_graph([lambda s=s, d=d: read(s, d) for d in slices]) for s in range(6))
        return self.floors[key]

    def cell(self, name, distribution, batch, vocab=VOCAB, dtype="f32", with_peers=True, only_peers=None):
        label = f"{name} {distribution} {dtype} V={vocab} B={batch}"
        if self.only and self.only not in label:
            return
        if time.monotonic() > self.end:
            self.not_run += 1
            return
        slices = self.input(distribution, batch, vocab, dtype, "_renorm" in name)
        number = DTYPES[dtype][0]
        figure = {"name": name, "distribution": distribution, "dtype": dtype, "rows": batch, "vocab_size": vocab,
                  "floor_microseconds": self.floor(slices, batch, vocab, dtype)}

        def ours(data, dependent=0):
            return [lambda i=i, d=d: self.tombola.run(name, d, number, i, dependent) for i, d in enumerate(data)]
        try:
            figure["plan"] = self.tombola.plan(name, slices[0], number)
            figure["microseconds"] = time_graph(ours(slices))
            if name == "k50_p0.9":
                figure["dependent_microseconds"] = time_graph(ours(slices, 1))
            figure["warm_microseconds"] = time_graph(ours([slices[0]] * max(8, min(len(slices), 64))))
        except Refused as refusal:
            print(f"{label}: {refusal}")
        figure["peers"] = {}
        if with_peers and dtype == "f32":
            for peer, function in peers.contestants(self.flashinfer, name).items():
                if only_peers and not peer.startswith(only_peers):
                    continue
                figure["peers"][peer] = time_graph([lambda f=function, d=d: f(d) for d in slices])
        self.figures.append(figure)
        line = " ".join(f"{key[:-13]} {figure[key]:.2f}" for key in figure if key.endswith("microseconds"))
        print(f"{label}: ours {line}" + "".join(f" | {peer} {t:.1f}" for peer, t in figure["peers"].items()), flush=True)


def run_samplers(bench, distributions, batches):
    for distribution in distributions:
        for name in SAMPLERS:
            for batch in batches:
                bench.cell(name, distribution, batch, only_peers=None if distribution == "zipf" else "flashinfer",
                           with_peers=distribution != "gemma")


def run_all(bench, quick):
    """What is asked most often comes first, since the time may run out."""
    batches = (1, 32, 256) if quick else BATCHES
    run_samplers(bench, ("zipf",) if quick else ("zipf", "n01"), batches)
    for name in OPERATORS:
        for batch in batches:
            bench.cell(name, "zipf", batch)
    for vocab in (65536, 131072):
        for batch in (1, 8, 64, 256):
            bench.cell("top_k_ids", "zipf", batch, vocab)
            bench.cell("top_k_ids_sorted", "zipf", batch, vocab, with_peers=False)
    for name in ("k50_p0.9", "p0.9", "no_filter"):
        for batch in batches:
            bench.cell(name, "zipf", batch, dtype="bf16")
    for batch in (1, 32, 256):
        bench.cell("k50_p0.9", "zipf", batch, vocab=262144)
    for name in ("k50_p0.9+logprob", "k50_p0.9+kept_ids", "k50_p0.9+raw_logprob", "k50_p0.9+entropy",
                 "k50_p0.9+top20_raw", "k50_p0.9+probabilities", "no_filter+raw_logprob", "no_filter+entropy"):
        for batch in batches:
            bench.cell(name, "zipf", batch)
    if quick:
        return
    for distribution in ("equal", "two", "ascending", "one_hot", "masked", "zipf"):
        for name in ("k50_p0.9", "p0.9", "min_p0.05", "no_filter", "mixed"):
            for batch in (1, 32, 256):
                if distribution != "zipf" or name == "mixed":
                    bench.cell(name, distribution, batch, with_peers=False)
    for batch in (1, 8, 32, 256):  # recorded rows, of few different values, of which many tokens are kept
        for dtype in ("f32", "bf16"):
            bench.cell("p0.99", "gemma", batch, dtype=dtype, with_peers=False)
        bench.cell("top_p_renorm_p0.99", "gemma", batch, with_peers=False)
    run_samplers(bench, ("gemma", "n05"), batches)


def receipt_figures(figures):
    """The figures in the receipt's form."""
    out = []
    for figure in figures:
        if "microseconds" not in figure:
            continue
        entry = {key: figure[key] for key in ("name", "distribution", "dtype", "rows", "vocab_size")}
        entry["microseconds"] = round(figure["microseconds"], 2)
        entry["floor_microseconds"] = round(figure["floor_microseconds"], 2)
        best = min(figure["peers"].items(), key=lambda item: item[1], default=("", None))
        entry["best_peer"] = best[0]
        entry["best_peer_microseconds"] = best[1] if best[1] is None else round(best[1], 2)
        out.append(entry)
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--harness", required=True)
    parser.add_argument("--floor", required=True)
    parser.add_argument("--flashinfer", nargs=2, metavar=("LIB", "VERSION"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", help="cells whose label contains this text")
    parser.add_argument("--seconds", type=float, default=3600, help="cells that begin later are left out, and counted")
    parser.add_argument("--figures", help="also write the figures for the receipt here")
    parser.add_argument("output")
    arguments = parser.parse_args()
    bench = Bench(arguments)
    spin = torch.randn(8192, 8192, device="cuda")
    for _ in range(20):
        spin = (spin @ spin).tanh()  # brings the clocks up
    torch.cuda.synchronize()
    run_all(bench, arguments.quick)
    if bench.not_run:
        print(f"{bench.not_run} cells left out: {arguments.seconds:.0f} s are over")
    driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
                            capture_output=True, text=True, check=True).stdout.split()[0]
    result = {"device": torch.cuda.get_device_name(), "driver": driver, "date": datetime.date.today().isoformat(),
              "torch": torch.__version__, "flashinfer": bench.flashinfer.version if bench.flashinfer else None,
              "sources_sha256": sources_sha256(),
              "method": __doc__.split("\n\n")[1].replace("\n", " "), "figures": bench.figures}
    with open(arguments.output, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
        file.write("\n")
    if arguments.figures:
        with open(arguments.figures, "w", encoding="utf-8") as file:
            json.dump(receipt_figures(bench.figures), file)


if __name__ == "__main__":
    main()
