"""Times the network of the built-in model decoder_tiny in PyTorch on a CUDA device, for comparison with `attache bench`.

    python torch_decoder.py

Keys and values are in a static cache of 1,024 tokens, attention is PyTorch's scaled_dot_product_attention, and a run is
the replay of a CUDA graph: a decode step of one token, or the reading of 512. For each precision and each number of tokens
it prints a line of JSON, in eager mode and with torch.compile's default mode. `gpu_us` is the median time of a replay,
`end_to_end_us` that of a run with the copies of tokens and logits, both in microseconds. Weights are random.

Beside it: attache bench decoder_tiny --signature decode --io device --precision f16
"""

import json
import time

import torch
from torch import nn
from torch.nn import functional

LAYERS, WIDTH, HEADS, VOCABULARY, CACHE, PROMPT = 4, 256, 4, 4096, 1024, 512
HEAD = WIDTH // HEADS
EPSILON = 1e-6
DEVICE = "cuda"


def rotate(heads, cos, sin):
    first, second = heads.chunk(2, -1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


class Layer(nn.Module):
    def __init__(self, dtype):
        super().__init__()
        linear = lambda inputs, outputs: nn.Linear(inputs, outputs, bias=False, device=DEVICE, dtype=dtype)
        self.query, self.key, self.value, self.output = (linear(WIDTH, WIDTH) for _ in range(4))
        self.gate, self.up, self.down = linear(WIDTH, 3 * WIDTH), linear(WIDTH, 3 * WIDTH), linear(3 * WIDTH, WIDTH)
        ones = lambda: nn.Parameter(torch.ones(WIDTH, device=DEVICE, dtype=dtype))
        self.attention_norm, self.feed_norm = ones(), ones()
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, HEADS, CACHE, HEAD, device=DEVICE, dtype=dtype))

    def forward(self, data, places, angles, mask):
        batch, tokens, _ = data.shape
        normal = functional.rms_norm(data, (WIDTH,), self.attention_norm, EPSILON)
        projections = (self.query, self.key, self.value)
        query, key, value = (of(normal).view(batch, tokens, HEADS, HEAD).transpose(1, 2) for of in projections)
        query, key = rotate(query, *angles), rotate(key, *angles)
        self.keys.index_copy_(2, places, key)
        self.values.index_copy_(2, places, value)
        mixed = functional.scaled_dot_product_attention(query, self.keys, self.values, attn_mask=mask)
        data = data + self.output(mixed.transpose(1, 2).reshape(batch, tokens, WIDTH))
        normal = functional.rms_norm(data, (WIDTH,), self.feed_norm, EPSILON)
        return data + self.down(functional.silu(self.gate(normal)) * self.up(normal))


class Decoder(nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.dtype = dtype
        self.embedding = nn.Embedding(VOCABULARY, WIDTH, device=DEVICE, dtype=dtype)
        self.layers = nn.ModuleList(Layer(dtype) for _ in range(LAYERS))
        self.norm = nn.Parameter(torch.ones(WIDTH, device=DEVICE, dtype=dtype))
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False, device=DEVICE, dtype=dtype)
        half = HEAD // 2
        angles = torch.arange(CACHE)[:, None] * 1e4 ** (-torch.arange(half)[None] / half)
        self.register_buffer("cos", angles.cos().to(DEVICE, dtype))
        self.register_buffer("sin", angles.sin().to(DEVICE, dtype))
        self.register_buffer("all", torch.arange(CACHE, device=DEVICE))

    def forward(self, tokens, places):
        data = self.embedding(tokens) * WIDTH**0.5
        angles = self.cos[places], self.sin[places]
        mask = torch.where(self.all[None] <= places[:, None], 0.0, -1e9).to(self.dtype)[None, None]
        for layer in self.layers:
            data = layer(data, places, angles, mask)
        return self.head(functional.rms_norm(data[:, -1:], (WIDTH,), self.norm, EPSILON))


def median(times):
    return sorted(times)[len(times) // 2]


def replays(graph, rounds=50, each=20):
    """The median time of a replay of the graph in microseconds, of `each` replays in a row."""
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = []
    for _ in range(rounds):
        first.record()
        for _ in range(each):
            graph.replay()
        last.record()
        last.synchronize()
        times.append(first.elapsed_time(last) / each * 1e3)
    return median(times)


def measure(network, count, mode):
    tokens = torch.zeros(1, count, dtype=torch.long, device=DEVICE)
    places = torch.arange(count, device=DEVICE) + (100 if count == 1 else 0)
    run = network if mode == "eager" else torch.compile(network)
    with torch.inference_mode():
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(3):
                run(tokens, places)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            logits = run(tokens, places)
        for _ in range(20):
            graph.replay()
        torch.cuda.synchronize()
        on_device = replays(graph)
        given, taken = tokens.cpu().pin_memory(), torch.empty_like(logits, device="cpu").pin_memory()
        times = []
        for _ in range(200):
            start = time.perf_counter()
            tokens.copy_(given, non_blocking=True)
            graph.replay()
            taken.copy_(logits, non_blocking=True)
            torch.cuda.synchronize()
            times.append((time.perf_counter() - start) * 1e6)
    of = {"tokens": count, "dtype": str(network.dtype).removeprefix("torch."), "mode": mode}
    print(json.dumps(of | {"gpu_us": round(on_device, 1), "end_to_end_us": round(median(times), 1)}), flush=True)


def main():
    torch.backends.cuda.matmul.allow_tf32 = False
    for dtype in (torch.float32, torch.float16):
        network = Decoder(dtype)
        for mode in ("eager", "default"):
            for count in (1, PROMPT):
                measure(network, count, mode)


if __name__ == "__main__":
    main()
