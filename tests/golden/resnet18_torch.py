"""Compares a step of examples/resnet18_cifar10.c with torchvision's resnet18 (its modules and names, written here with
torch.nn) in float64. Run by test_resnet18_torch.sh in a folder with what resnet18_step wrote.

usage: resnet18_torch.py PICTURES COUNT TOLERANCE <(what resnet18_step printed)"""
import sys

import numpy as np
import torch
from torch import nn


class BasicBlock(nn.Module):
    def __init__(self, inputs, channels, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.downsample = None
        if stride != 1:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, channels, 1, stride, bias=False),
                nn.BatchNorm2d(channels))

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + (x if self.downsample is None else self.downsample(x)))


class ResNet18(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        inputs = 64
        for i, channels in enumerate((64, 128, 256, 512), 1):
            stride = 1 if i == 1 else 2
            setattr(self, f"layer{i}",
                nn.Sequential(BasicBlock(inputs, channels, stride), BasicBlock(channels, channels, 1)))
            inputs = channels
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(512, 10)

    def forward(self, x):
        x = self.maxpool(torch.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1))


def tensors(path, shapes):
    flat, at, found = np.fromfile(path, dtype=np.float32), 0, {}
    for name, shape in shapes.items():
        found[name] = torch.from_numpy(flat[at:at + shape.numel()].astype(np.float64)).view(shape)
        at += shape.numel()
    assert at == len(flat), f"{path}: {len(flat)} values, expected {at}"
    return found


def main():
    path, count, tolerance = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    lines = [line.split() for line in sys.stdin]
    listed = {words[0]: int(words[1]) * max(1, int(words[2])) for words in lines if len(words) == 3}
    loss = next(float(words[1]) for words in lines if words[0] == "loss")
    model = ResNet18().double()
    expected = {name: t.shape for name, t in model.state_dict().items() if not name.endswith("num_batches_tracked")}
    parameters = sum(p.numel() for p in model.parameters())
    assert parameters == 11181642, parameters
    assert set(listed) == set(expected), sorted(set(listed) ^ set(expected))
    shapes = {name: expected[name] for name in listed}
    wrong = [name for name in listed if listed[name] != shapes[name].numel()]
    assert not wrong, wrong
    model.load_state_dict(tensors("before.bin", shapes), strict=False)

    records = np.fromfile(path, dtype=np.uint8).reshape(-1, 3073)[:count]
    # In float32, as the example computes them.
    mean, deviation = (np.array(v, dtype=np.float32).reshape(1, 3, 1, 1)
                       for v in ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)))
    pixels = records[:, 1:].reshape(-1, 3, 32, 32).astype(np.float32) / np.float32(255)
    images = torch.from_numpy(((pixels - mean) / deviation).astype(np.float64))
    model.train()
    wanted = nn.functional.cross_entropy(model(images), torch.from_numpy(records[:, 0].astype(np.int64)))
    wanted.backward()

    worst = {"loss": (abs(loss - wanted.item()) / wanted.item(), "")}
    gradients, after, state = tensors("grad.bin", shapes), tensors("after.bin", shapes), model.state_dict()
    pairs = {"gradient": [(name, gradients[name], p.grad) for name, p in model.named_parameters()],
             "running statistic": [(name, after[name], state[name]) for name in shapes if "running_" in name]}
    for what, rows in pairs.items():
        worst[what] = max(((ours - theirs).norm().item() / theirs.norm().item(), name) for name, ours, theirs in rows)
    failures = 0
    for what, (error, name) in worst.items():
        print(f"{'ok    ' if error <= tolerance else 'FAILED'} {what}: relative error {error:.1e} {name}")
        failures += not error <= tolerance
    sys.exit(failures > 0)


main()
