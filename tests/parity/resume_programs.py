"""A Python program of a user's own that is started again by its own command is the program that was never cut: losses,
rates and saved files agree bit for bit, and it warns of nothing more. Rows: options, a JSON, and what else the program
has. test_resume_programs.c has the whole table."""
import os
import sys
import tempfile
from typing import NamedTuple, Optional

import megalith
import numpy as np

CUT, END = 7, 12
random = np.random.default_rng(3)
label = np.arange(40) % 5
image = random.random((5, 12))[label] + 0.2 * random.random((40, 12))


def layer(b, flow):
    flow.x = b.dropout("drop", b.activation(b.linear("a", b.input("image", megalith.F32, 1, 12), 9), megalith.ACT_RELU), 0.2)


def head(b, flow):
    b.loss_add("loss", b.cross_entropy(b.linear("b", flow.x, 5), b.input("label", megalith.I32, 1, 0)), 1.0)


def read(index, sample):  # noise of its own in each epoch
    sample["image"] = image[index] + 0.1 * np.random.default_rng(sample.index).random(12)
    sample["label"] = label[index]


class Row(NamedTuple):
    options: str = ""
    config: Optional[dict] = None
    data: object = {"image": image, "label": label}
    by_parts: bool = False
    rate: object = None


def optimizer(name, **params):
    return {"optimizer": {"type": name, "params": {"lr": 0.02, **params}}}


def scheduler(name, **params):
    return {"scheduler": {"type": name, "params": params}}


ROWS = [
    Row(),
    Row(by_parts=True),
    Row("--bf16"),
    Row("--fp16 --initial-loss-scale 65536 --loss-scale-window 3"),
    Row("--zero-stage 2 --adam-beta2 0.9"),
    Row(data=megalith.Dataset(read, count=40)),
    Row("--weight-decay 0.1", data=megalith.Dataset(read, count=33, first=5), by_parts=True),
    Row(rate=lambda step, samples: 0.1 / (1 + step) + 1e-5 * samples),
    Row("--lr-decay-style cosine --lr-decay-iters 20"),
    Row(config=optimizer("AdamW", betas=[0.8, 0.95], weight_decay=0.1)),
    Row(config=optimizer("Lamb", max_coeff=0.5)),
    Row(config=optimizer("Muon", momentum=0.9)),
    Row(config=optimizer("AdamWScheduleFree", warmup_steps=9)),
    Row(config=scheduler("WarmupDecayLR", warmup_num_steps=3, warmup_max_lr=0.02, total_num_steps=11)),
    Row(config=scheduler("OneCycle", cycle_min_lr=0.01, cycle_max_lr=0.05, cycle_first_step_size=4)),
    Row(config={"fp16": {"enabled": True, "initial_scale_power": 17, "loss_scale_window": 4}, "gradient_clipping": 0.1}),
    Row(config={"zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 8}, "bf16": {"enabled": True}}),
]


def step_of(engine, by_parts):
    if not by_parts:
        result = engine.train_batch()
        return result.loss, result.lr
    loss = 0.0
    for _ in range(engine.gradient_accumulation_steps()):
        loss += engine.forward()
        engine.backward()
        result = engine.step()
    return loss, engine.lr()


def run(row, load, save):
    options = ["--micro-batch-size", 2, "--global-batch-size", 4, "--num-threads", 1, *row.options.split()]
    if row.rate is None and "lr\":" not in str(row.config).replace("'", '"'):
        options += ["--lr", 0.02]
    setup = {}
    if row.rate is not None:
        setup["lr_scheduler"] = dict(name="own", lr=lambda _, step, samples: row.rate(step, samples))
    steps, warnings = [], []
    megalith.log_to(lambda line, level: warnings.append(line) if level == megalith.LOG_WARN else None)
    with megalith.Engine([layer, head], row.data, options, config=row.config, **setup) as engine:
        if load:
            engine.load_checkpoint(load, "iter_%07d" % CUT)
        for step in range(CUT if load else 0, END):
            steps.append(step_of(engine, row.by_parts))
            if step + 1 in (CUT, END):
                engine.save_checkpoint(save)
    return steps, warnings


def content(folder, name):
    path = os.path.join(folder, "iter_%07d" % END, name)
    with open(path, "rb") as file:
        return file.read()


failures = 0
with tempfile.TemporaryDirectory() as work:
    for number, row in enumerate(ROWS):
        whole, rest = os.path.join(work, f"whole{number}"), os.path.join(work, f"rest{number}")
        steps, warnings = run(row, None, whole)
        again, more = run(row, whole, rest)
        wrong = [f"steps {steps[CUT:]}, resumed {again}"] if steps[CUT:] != again else []
        for name in "model.safetensors", os.path.join("state", "optimizer.safetensors"):
            if content(whole, name) != content(rest, name):
                wrong.append(f"{name} differs")
        wrong += [line for line in more if line not in warnings]
        for text in wrong:
            print(f"FAILED: row {number} {row.options} {row.config}: {text}")
        failures += bool(wrong)
print(f"{len(ROWS)} programs")
sys.exit(failures > 0)
