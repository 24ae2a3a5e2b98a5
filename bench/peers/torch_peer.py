"""PyTorch beside meshc. Usage: torch_peer.py VARIANT MODEL IN OUT (common.py)
eager: optimizer with fused=True where PyTorch has it; images with channels innermost. compile: loss and optimizer step
through torch.compile. On a GPU products of f32 are computed in f32, not in TF32."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

import common
from common import LM, MLP, RATES, THREADS


def mlp(sizes):
    layers = []
    for m, n in zip(sizes, sizes[1:]):
        layers += [nn.Linear(m, n), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def cnn():
    conv = lambda i, o, pad: [nn.Conv2d(i, o, 3, padding=pad), nn.ReLU()]
    drop = lambda i: [nn.Dropout(RATES[i])] if RATES[i] else []
    return nn.Sequential(*conv(3, 32, 1), *conv(32, 32, 0), nn.MaxPool2d(2), *drop(0), *conv(32, 64, 1), *conv(64, 64, 0),
                         nn.MaxPool2d(2), *drop(1), nn.Flatten(), nn.Linear(2304, 512), nn.ReLU(), *drop(2), nn.Linear(512, 10))


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads, self.n1, self.n2 = heads, nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj, self.up, self.down = nn.Linear(d, 3 * d), nn.Linear(d, d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        batch, length, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(batch, length, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, length, d)
        x = x + self.proj(a)
        return x + self.down(F.gelu(self.up(self.n2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, L, d, h, T, B, V, tied):
        super().__init__()
        self.tok, self.pos, self.nf = nn.Embedding(V, d), nn.Embedding(T, d), nn.LayerNorm(d)
        self.blocks, self.head = nn.ModuleList(Block(d, h) for _ in range(L)), nn.Linear(d, V, bias=False)
        if tied:
            self.head.weight = self.tok.weight

    def forward(self, ids):
        x = self.tok(ids) + self.pos.weight
        for block in self.blocks:
            x = block(x)
        return self.head(self.nf(x)).flatten(0, 1)


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        c = common.LSTM
        self.rnn, self.head = nn.LSTM(c["inputs"], c["hidden"], batch_first=True), nn.Linear(c["hidden"], c["outputs"])

    def forward(self, x):
        return self.head(self.rnn(x)[0]).flatten(0, 1)


def set_initial(model, net):
    """Copies the initial values of the model file into the net."""
    p = {name: torch.from_numpy(value) for name, value in common.initial(model).items()}

    def linear(layer, w, b):
        layer.weight.copy_(p[w].reshape(layer.in_features, layer.out_features).T)
        layer.bias.copy_(p[b].flatten())

    def norm(layer, name):
        layer.weight.copy_(p[name + ".scale"])
        layer.bias.copy_(p[name + ".shift"])
    if model in MLP:
        for i, layer in enumerate([x for x in net if isinstance(x, nn.Linear)], 1):
            linear(layer, f"w{i}", f"b{i}")
    elif model in LM:
        net.tok.weight.copy_(p["tok"])
        net.pos.weight.copy_(p["pos"])
        if not LM[model]["tied"]:
            net.head.weight.copy_(p["head"])
        for i, block in enumerate(net.blocks):
            norm(block.n1, f"layer.{i}.n1")
            norm(block.n2, f"layer.{i}.n2")
            for name in ("qkv", "proj", "up", "down"):
                linear(getattr(block, name), f"layer.{i}.{name}_w", f"layer.{i}.{name}_b")
        norm(net.nf, "nf")
    elif model == "cnn":
        layers = [x for x in net if isinstance(x, (nn.Conv2d, nn.Linear))]
        for layer, name in zip(layers, common.CNN):
            w = p[name + ".kernel"]
            if name == "hidden":  # rows of the model file: y, x, channels; of Flatten: channels, y, x
                w = w.reshape(6, 6, 64, 512).permute(2, 0, 1, 3).reshape(2304, 512)
            layer.weight.copy_(w.permute(3, 2, 0, 1) if w.dim() == 4 else w.T)
            layer.bias.copy_(p[name + ".bias"])
    else:
        order = [1, 0, 2, 3]  # gates of the model file: forget, input, cell, output
        gates = lambda a: a[..., order, :].reshape(*a.shape[:-2], -1)
        net.rnn.weight_ih_l0.copy_(gates(p["w"]).T)
        net.rnn.weight_hh_l0.copy_(gates(p["u"]).T)
        net.rnn.bias_ih_l0.copy_(gates(p["bias"]))
        net.rnn.bias_hh_l0.copy_(gates(p["bias2"]))
        linear(net.head, "head", "head_b")


def optimizer(model, params, fused):
    kind = "cnn" if model == "cnn" else "lm" if model in LM else MLP[model][2] if model in MLP else "adam"
    if kind == "cnn":  # PyTorch has no fused RMSprop
        return torch.optim.RMSprop(params, lr=1e-5, alpha=.9, eps=1e-7)
    made = {"sgd": torch.optim.SGD, "lm": torch.optim.AdamW, "adam": torch.optim.Adam}[kind]
    return made(params, lr=common.rate_of(model), fused=fused)


def train(model, variant):
    net = mlp(MLP[model][0]) if model in MLP else cnn() if model == "cnn" else Gpt(**LM[model]) if model in LM else Lstm()
    with torch.no_grad():
        set_initial(model, net)
    net.to(common.DEVICE)
    x, y = (torch.from_numpy(a).to(common.DEVICE) for a in common.data(model).values())
    y = y.long().flatten()
    x = x.long() if model in LM else x.permute(0, 3, 1, 2) if model == "cnn" else x
    if model == "cnn":
        net, x = net.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    opt = optimizer(model, net.parameters(), variant == "eager")
    def loss_of():
        with torch.autocast(common.DEVICE, torch.bfloat16, enabled=model in common.BF16):
            return F.cross_entropy(net(x), y)
    update = opt.step
    if variant == "compile":
        loss_of, update = torch.compile(loss_of), torch.compile(lambda: opt.step())

    def step():
        opt.zero_grad()
        loss = loss_of()
        loss.backward()
        update()
        return loss.detach()
    return step


if __name__ == "__main__":
    torch.set_num_threads(THREADS)
    torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(0)
    common.serve(train(sys.argv[2], sys.argv[1]), lambda loss: [loss.item()], gpu_memory=torch.cuda.max_memory_allocated)
