#!/usr/bin/env python3
"""Trains a small network on handwritten digits with ZeRO stage 2, on any number of ranks:

    export PYTHONPATH=PREFIX/share/megalith        # PREFIX: where megalith is installed
    mpirun -n 2 python3 mnist.py t10k-images-idx3-ubyte.gz t10k-labels-idx1-ubyte.gz \\
        [--pipeline-model-parallel-size 2]

It is mnist.c in Python, and prints the same losses. The files hold 10,000 digits: TRAIN of them are
for training, and the next TEST are tested after each epoch.
"""

import gzip
import sys

import megalith
import numpy as np

TRAIN, TEST, EPOCHS = 8000, 2000, 8
SIDE, CLASSES = 28, 10
SETTINGS = """--micro-batch-size 16 --global-batch-size 64 --zero-stage 2 --clip-grad 1.0 --lr 2e-3
    --lr-decay-style cosine --train-iters 1000 --lr-warmup-iters 50 --weight-decay 1e-2"""


def features(b, flow):
    size = megalith.image_size(SIDE, SIDE)
    x = b.input("image", megalith.F32, SIDE * SIDE, 1)
    for name, channels in (("conv1", 32), ("conv2", 64)):
        x = b.conv2d(name, x, channels, size, kernel_size=3, padding=1)
        x = b.max_pool2d(b.activation(x, megalith.ACT_RELU), size, window=2)
    flow.x = b.reshape(x, size.height * size.width * 64)  # [samples, 7 * 7 * 64]


def classifier(b, flow):
    label = b.input("label", megalith.I32, 1, 0)
    x = b.activation(b.linear("fc1", flow.x, 128), megalith.ACT_RELU)
    x = b.linear("fc2", b.dropout("drop", x, 0.25), CLASSES)
    b.loss_add("loss", b.cross_entropy(x, label), 1.0)
    b.loss_add("accuracy", b.accuracy(x, label), 0.0)


def main(images, labels, *options):
    with gzip.open(images) as file:
        pixels = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, SIDE * SIDE)
    with gzip.open(labels) as file:
        label = np.frombuffer(file.read(), np.uint8, offset=8)
    digits = {"image": pixels / np.float32(255), "label": label}
    training = megalith.Dataset(digits, count=TRAIN)
    test_set = megalith.Dataset(digits, first=TRAIN, count=TEST)
    model = megalith.Model([features, classifier], partition=megalith.PARTITION_UNIFORM)
    with megalith.Engine(model, training, [*SETTINGS.split(), *options]) as engine:
        for epoch in range(1, EPOCHS + 1):
            while engine.global_samples() < epoch * TRAIN:
                step = engine.train_batch()
            test = engine.evaluate(test_set)
            if engine.is_main_process():
                accuracy = 100 * test.metrics["accuracy"]
                print(f"epoch {epoch}: loss {step.loss:.4f}, test accuracy {accuracy:.2f} %")
        engine.save_checkpoint("digits")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: mnist.py IMAGES LABELS [options]")
    main(*sys.argv[1:])
