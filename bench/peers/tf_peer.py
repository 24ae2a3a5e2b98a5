"""TensorFlow with layers of Keras beside meshc, the whole step in one tf.function: the MLPs and cnn.
Usage: tf_peer.py graph MODEL IN OUT (common.py)"""
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import keras
import tensorflow as tf

import common
from common import MLP, RATES, THREADS

L = keras.layers


def build(model):
    if model == "cnn":
        conv = lambda n, pad: L.Conv2D(n, 3, padding=pad, activation="relu")
        drop = lambda i: [L.Dropout(RATES[i])] if RATES[i] else []
        return keras.Sequential([keras.Input((32, 32, 3)), conv(32, "same"), conv(32, "valid"), L.MaxPool2D(), *drop(0),
                                 conv(64, "same"), conv(64, "valid"), L.MaxPool2D(), *drop(1), L.Flatten(),
                                 L.Dense(512, "relu"), *drop(2), L.Dense(10)])
    sizes = MLP[model][0]
    return keras.Sequential([keras.Input((sizes[0],))] + [L.Dense(n, "relu") for n in sizes[1:-1]] + [L.Dense(sizes[-1])])


def train(model):
    net, (x, y) = build(model), map(tf.constant, common.data(model).values())
    net.set_weights(list(common.initial(model).values()))  # Keras has the order and the shapes of the model file
    rate = common.rate_of(model)
    # Keras adds epsilon under the root: 1e-14 there is the 1e-7 of the other peers
    opt = (keras.optimizers.RMSprop(rate, epsilon=1e-14) if model == "cnn" else
           keras.optimizers.SGD(rate) if MLP[model][2] == "sgd" else keras.optimizers.Adam(rate))
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    opt.build(net.trainable_variables)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = loss_of(y, net(x, training=True))
        opt.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))
        return loss
    return step


if __name__ == "__main__":
    tf.config.threading.set_intra_op_parallelism_threads(THREADS)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    common.serve(train(sys.argv[2]), lambda loss: [float(loss)])
