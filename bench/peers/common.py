"""The models of bench/models for the peers: sizes, initial values, data, and the answers to bench/run.

Usage: common.py MODEL FOLDER    writes the initial parameters (params.npz) and the inputs (NAME.npy) for meshc

A peer script is started as PEER.py VARIANT MODEL IN OUT. IN and OUT are named pipes. The peer makes its step from the
same initial values and data as meshc, runs it once and writes a line. Then it waits for lines:
  check N     runs steps up to step N and writes the losses of steps 1 and N
  time S      runs steps for S seconds and writes: median, best (seconds of a step), peak resident memory, on a GPU peak
              memory of its arrays there (bytes)
  quit        ends
"""
import os
import resource
import statistics
import sys
import time

import numpy as np

# sizes of the layers, batch, optimizer
MLP = {"iris": ([4, 10, 10, 3], 30, "adam"),
       "mlp128_b64": ([784, 128, 10], 64, "sgd"),
       "mlp128_b100": ([784, 128, 10], 100, "adam"),
       "mlp1024": ([784, 1024, 1024, 10], 256, "adam"),
       "mlp4096": ([4096, 4096, 4096, 10], 256, "adam")}
LM = {"charlm": dict(L=4, d=128, h=4, T=64, B=12, V=65, tied=False),
      "lm4": dict(L=4, d=256, h=4, T=128, B=8, V=4096, tied=False),
      "lm6": dict(L=6, d=384, h=6, T=256, B=4, V=8192, tied=False),
      "gpt2": dict(L=12, d=768, h=12, T=64, B=4, V=50257, tied=True),
      "gpt2_long": dict(L=12, d=768, h=12, T=1024, B=64, V=50257, tied=True)}
BF16 = {"mlp4096", "gpt2_long"}  # products in bf16; parameters, sums and optimizer in f32
LSTM = dict(hidden=256, inputs=128, T=64, B=32, outputs=128)
CNN_BATCH = 64
CNN = {"c1": (3, 3, 3, 32), "c2": (3, 3, 32, 32), "c3": (3, 3, 32, 64), "c4": (3, 3, 64, 64), "hidden": (2304, 512),
       "head": (512, 10)}  # shapes of the kernels: rows, columns, inputs, outputs
LEARNING_RATE = {"mlp128_b64": 1e-3}  # all others: 1e-5
# dropout behind the two poolings and behind the hidden layer; 0 while losses are compared
RATES = (.25, .25, .5) if os.environ.get("PEER_DROPOUT", "1") == "1" else (0, 0, 0)
DEVICE = os.environ.get("PEER_DEVICE", "cpu")  # cpu or cuda
THREADS = int(os.environ.get("PEER_THREADS", "2"))


def rate_of(model):
    return LEARNING_RATE.get(model, 1e-5)


def data(model):
    """Inputs by the names of the model file: reals (images [b, y, x, channels]) or token ids, and labels."""
    r = np.random.default_rng(0)
    reals = lambda *shape: r.standard_normal(shape, dtype=np.float32)
    labels = lambda n, *shape: r.integers(0, n, shape).astype(np.int32)
    if model in MLP:
        sizes, batch, _ = MLP[model]
        return {"x": reals(batch, sizes[0]), "label": labels(sizes[-1], batch)}
    if model in LM:
        c = LM[model]
        return {"ids": labels(c["V"], c["B"], c["T"]), "label": labels(c["V"], c["B"], c["T"])}
    if model == "cnn":
        return {"image": reals(CNN_BATCH, 32, 32, 3), "label": labels(10, CNN_BATCH)}
    c = LSTM
    return {"x": reals(c["B"], c["T"], c["inputs"]), "label": labels(c["outputs"], c["B"], c["T"])}


def initial(model):
    """Initial parameters by the names and shapes of the model file."""
    r = np.random.default_rng(1)
    normal = lambda *shape, std: r.standard_normal(shape, dtype=np.float32) * np.float32(std)
    zero, one = lambda *shape: np.zeros(shape, np.float32), lambda *shape: np.ones(shape, np.float32)
    p = {}
    if model in MLP:
        sizes = MLP[model][0]
        for i, (m, n) in enumerate(zip(sizes, sizes[1:]), 1):
            p[f"w{i}"], p[f"b{i}"] = normal(m, n, std=m ** -.5), zero(n)
    elif model in LM:
        c = LM[model]
        d, h = c["d"], c["h"]
        k = d // h
        p["tok"], p["pos"] = normal(c["V"], d, std=.02), normal(c["T"], d, std=.02)
        if not c["tied"]:
            p["head"] = normal(c["V"], d, std=.02)
        for i in range(c["L"]):
            for norm in ("n1", "n2"):
                p[f"layer.{i}.{norm}.scale"], p[f"layer.{i}.{norm}.shift"] = one(d), zero(d)
            for name, shape, inputs, bias in (("qkv", (d, 3, h, k), d, (3, h, k)), ("proj", (h, k, d), d, (d,)),
                                              ("up", (d, 4 * d), d, (4 * d,)), ("down", (4 * d, d), 4 * d, (d,))):
                p[f"layer.{i}.{name}_w"], p[f"layer.{i}.{name}_b"] = normal(*shape, std=inputs ** -.5), zero(*bias)
        p["nf.scale"], p["nf.shift"] = one(d), zero(d)
    elif model == "cnn":
        for name, shape in CNN.items():
            p[name + ".kernel"], p[name + ".bias"] = normal(*shape, std=np.prod(shape[:-1]) ** -.5), zero(shape[-1])
    else:
        c = LSTM
        k = c["hidden"]
        p = {"w": normal(c["inputs"], 4, k, std=c["inputs"] ** -.5), "u": normal(k, 4, k, std=k ** -.5), "bias": zero(4, k),
             "bias2": zero(4, k), "head": normal(k, c["outputs"], std=k ** -.5), "head_b": zero(c["outputs"])}
    return p


def write(path, line):
    with open(path, "w") as f:
        f.write(line + "\n")


def serve(step, losses, per_call=1, gpu_memory=None):
    """Answers bench/run. step() starts a call of per_call steps; losses(result) waits and returns their losses. gpu_memory()
    returns the peak bytes on the GPU."""
    incoming, outgoing = sys.argv[3:5]
    now = time.perf_counter
    seen = list(losses(step()))
    write(outgoing, "ready")
    while True:
        with open(incoming) as f:
            word, *rest = f.read().split()
        if word == "quit":
            return
        if word == "check":
            while len(seen) < int(rest[0]):
                seen += losses(step())
            write(outgoing, "%.9g %.9g" % (seen[0], seen[int(rest[0]) - 1]))
            continue
        for _ in range(2):
            losses(step())
        start = now()
        losses(step())
        group = max(1, int(.005 / (now() - start)))  # short steps are timed in groups of 5 ms
        times, end = [], now() + float(rest[0])
        while len(times) < 3 or now() < end:
            start = now()
            for _ in range(group):
                result = step()
            losses(result)
            times.append((now() - start) / group / per_call)
        memory = gpu_memory() if DEVICE == "cuda" else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        write(outgoing, "%.9g %.9g %d" % (statistics.median(times), min(times), memory))


if __name__ == "__main__":
    model, folder = sys.argv[1:3]
    np.savez(os.path.join(folder, "params.npz"), **initial(model))
    for name, array in data(model).items():
        np.save(os.path.join(folder, name + ".npy"), array)
