"""Greedy generation in PyTorch with a cache of keys and values. Usage: torch_generate.py MODEL CONTEXT PROMPT TOKENS [f32|bf16]
Prints the seconds for TOKENS tokens after a prompt of PROMPT ids, the prompt not counted. The weights are random: the time does not
depend on them. The cache has its full size from the start; a step writes its row and reads the rows so far."""
import sys
import time

import torch
import torch.nn.functional as F

import common
from torch_peer import Gpt

model, context, prompt, tokens = sys.argv[1], *map(int, sys.argv[2:5])
dtype = torch.bfloat16 if sys.argv[5:] == ["bf16"] else torch.float32
torch.set_num_threads(common.THREADS)
net = Gpt(**{**common.LM[model], "T": context}).eval().to(dtype)


def block(layer, x, keys, values, at):
    batch, n, d = x.shape
    heads = layer.heads
    q, k, v = layer.qkv(layer.n1(x)).view(batch, n, 3, heads, d // heads).permute(2, 0, 3, 1, 4)
    keys[:, :, at:at + n] = k
    values[:, :, at:at + n] = v
    a = F.scaled_dot_product_attention(q, keys[:, :, :at + n], values[:, :, :at + n], is_causal=n > 1)
    x = x + layer.proj(a.transpose(1, 2).reshape(batch, n, d))
    return x + layer.down(F.gelu(layer.up(layer.n2(x)), approximate="tanh"))


def run(ids, at, cache):
    x = net.tok(ids) + net.pos.weight[at:at + ids.shape[1]]
    for layer, (keys, values) in zip(net.blocks, cache):
        x = block(layer, x, keys, values, at)
    return net.head(net.nf(x[:, -1])).argmax(-1, keepdim=True)


with torch.inference_mode():
    c = common.LM[model]
    shape = (1, c["h"], context, c["d"] // c["h"])
    cache = [(torch.zeros(shape, dtype=dtype), torch.zeros(shape, dtype=dtype)) for _ in net.blocks]
    for _ in range(2):  # the first time warms up
        ids = run(torch.arange(prompt).view(1, -1), 0, cache)
        start = time.perf_counter()
        for i in range(tokens):
            ids = run(ids, prompt + i, cache)
        seconds = time.perf_counter() - start
print(seconds)
