"""JAX beside meshc, the whole step jitted with donated state. Usage: jax_peer.py VARIANT MODEL IN OUT (common.py)
jit: one step a call; layers of language models under lax.scan, which is faster than unrolled ones. loop: 100 steps a
call on the same batch, without the cost of calls."""
import sys

import jax
import jax.numpy as jnp
import optax
from jax import lax

import common
from common import LM, MLP, RATES

LOOP = 100


def cross_entropy(logits, label):
    return optax.softmax_cross_entropy_with_integer_labels(logits.astype(jnp.float32), label).mean()


def in_bf16(loss):
    """The loss with parameters and reals rounded to bf16, and gradients in f32."""
    short = lambda a: a.astype(jnp.bfloat16) if a.dtype == jnp.float32 else a
    return lambda p, x, y, key: loss(jax.tree.map(short, p), short(x), y, key)


def mlp(p, x, y, key):
    n = len(p) // 2
    for i in range(1, n):
        x = jax.nn.relu(x @ p[f"w{i}"] + p[f"b{i}"])
    return cross_entropy(x @ p[f"w{n}"] + p[f"b{n}"], y)


def cnn(p, x, y, key):
    keys = jax.random.split(key, 3)

    def drop(x, i):
        if not RATES[i]:
            return x
        return jnp.where(jax.random.bernoulli(keys[i], 1 - RATES[i], x.shape), x / (1 - RATES[i]), 0)

    def conv(x, name, pad):
        z = lax.conv_general_dilated(x, p[name + ".kernel"], (1, 1), pad, dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return jax.nn.relu(z + p[name + ".bias"])

    def pool(x):
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = drop(pool(conv(conv(x, "c1", "SAME"), "c2", "VALID")), 0)
    x = drop(pool(conv(conv(x, "c3", "SAME"), "c4", "VALID")), 1)
    x = drop(jax.nn.relu(x.reshape(x.shape[0], -1) @ p["hidden.kernel"] + p["hidden.bias"]), 2)
    return cross_entropy(x @ p["head.kernel"] + p["head.bias"], y)


def layers_stacked(p):
    """The parameters of all layers under one name each, stacked: layer.0.up_w, layer.1.up_w, ... as layers up_w."""
    first = [name.removeprefix("layer.0.") for name in p if name.startswith("layer.0.")]
    count = sum(name.endswith(".up_w") for name in p)
    stacked = {name: jnp.stack([p[f"layer.{i}.{name}"] for i in range(count)]) for name in first}
    return {**{name: value for name, value in p.items() if not name.startswith("layer.")}, "layers": stacked}


def lm(p, ids, y, key):
    d = p["tok"].shape[1]
    length = ids.shape[1]
    causal = jnp.tril(jnp.ones((length, length), bool))

    def norm(x, scale, shift):
        m = x.mean(-1, keepdims=True)
        return (x - m) * lax.rsqrt(jnp.square(x - m).mean(-1, keepdims=True) + 1e-5) * scale + shift

    def layer(x, b):
        z = jnp.einsum("btd,dchk->btchk", norm(x, b["n1.scale"], b["n1.shift"]), b["qkv_w"]) + b["qkv_b"]
        q, k, v = jnp.moveaxis(z, 2, 0)
        s = jnp.einsum("bthk,bshk->bhts", q, k) * q.shape[-1] ** -.5
        s = jax.nn.softmax(jnp.where(causal, s, -1e30), -1)
        x = x + jnp.einsum("bthk,hkd->btd", jnp.einsum("bhts,bshk->bthk", s, v), b["proj_w"]) + b["proj_b"]
        f = jax.nn.gelu(norm(x, b["n2.scale"], b["n2.shift"]) @ b["up_w"] + b["up_b"], approximate=True)
        return x + f @ b["down_w"] + b["down_b"], None
    x = lax.scan(layer, p["tok"][ids] + p["pos"], p["layers"])[0]
    return cross_entropy(norm(x, p["nf.scale"], p["nf.shift"]) @ p.get("head", p["tok"]).T, y)


def lstm(p, x, y, key):
    flat = lambda name: p[name].reshape(*p[name].shape[:-2], -1)
    z = jnp.swapaxes(x @ flat("w") + flat("bias") + flat("bias2"), 0, 1)
    u = flat("u")

    def cell(state, z):
        forget, put, new, out = jnp.split(z + state[0] @ u, 4, -1)
        c = jax.nn.sigmoid(forget) * state[1] + jax.nn.sigmoid(put) * jnp.tanh(new)
        h = jax.nn.sigmoid(out) * jnp.tanh(c)
        return (h, c), h
    zero = jnp.zeros((x.shape[0], u.shape[0]))
    hs = jnp.swapaxes(lax.scan(cell, (zero, zero), z)[1], 0, 1)
    return cross_entropy(hs @ p["head"] + p["head_b"], y)


def optimizer(model):
    rate = common.rate_of(model)
    if model == "cnn":
        return optax.rmsprop(rate, decay=.9, eps=1e-7, eps_in_sqrt=False)
    if model in LM:
        return optax.adamw(rate, weight_decay=.01)
    return optax.sgd(rate) if model in MLP and MLP[model][2] == "sgd" else optax.adam(rate)


def train(model, variant):
    p = jax.tree.map(jnp.asarray, common.initial(model))
    if model in LM:
        p = layers_stacked(p)
    loss = mlp if model in MLP else cnn if model == "cnn" else lm if model in LM else lstm
    loss = in_bf16(loss) if model in common.BF16 else loss
    opt, (x, y) = optimizer(model), map(jnp.asarray, common.data(model).values())

    def one(state, x, y):
        p, s, key = state
        key, now = jax.random.split(key) if model == "cnn" else (key, key)  # only dropout draws random numbers
        value, g = jax.value_and_grad(loss)(p, x, y, now)
        u, s = opt.update(g, s, p)
        return (optax.apply_updates(p, u), s, key), value

    def many(state, x, y):
        return lax.scan(lambda s, _: one(s, x, y), state, None, length=LOOP)
    run = jax.jit(many if variant == "loop" else one, donate_argnums=0)
    state = [(p, opt.init(p), jax.random.key(0))]

    def step():
        state[0], value = run(state[0], x, y)
        return value
    return step


if __name__ == "__main__":
    kind = sys.argv[1]
    jax.config.update("jax_platforms", common.DEVICE)
    jax.config.update("jax_default_matmul_precision", "highest")  # on a GPU f32, not TF32
    common.serve(train(sys.argv[2], kind), lambda v: jax.block_until_ready(v).reshape(-1).tolist(), LOOP if kind == "loop" else 1,
                 gpu_memory=lambda: jax.local_devices()[0].memory_stats()["peak_bytes_in_use"])
