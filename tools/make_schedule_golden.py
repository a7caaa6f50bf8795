#!/usr/bin/env python3
"""Writes tests/golden/schedules.json: learning rates, betas and weight decays as DeepSpeed's and Megatron-LM's own
schedulers
compute them, for tests/golden/test_schedules.c.

usage: python tools/make_schedule_golden.py DEEPSPEED/deepspeed/runtime/lr_schedules.py \
           MEGATRON/megatron/core/optimizer_param_scheduler.py tests/golden/schedules.json

Both files are executed as they are; of torch, deepspeed and megatron only what they import is replaced, by a few lines
here.
No other package is needed.
"""
import json
import logging
import sys
import types

UPDATES = 70


class Optimizer:
    """A torch optimizer as the schedulers see it: one group."""

    def __init__(self, lr):
        self.defaults = {"betas": (0.9, 0.999)}
        self.param_groups = [{"lr": lr, "betas": (0.9, 0.999), "lr_mult": 1.0, "wd_mult": 1.0, "max_lr": None,
            "min_lr": None}]
        self.param_groups[0] = {k: v for k, v in self.param_groups[0].items() if v is not None}


def module(name, **members):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__dict__.update(members)


def load(path):
    logger = logging.getLogger("original")
    logger.setLevel(logging.ERROR)
    optim = types.ModuleType("torch.optim")
    optim.Optimizer = Optimizer
    module("torch", is_tensor=lambda x: False, Tensor=types.SimpleNamespace, optim=optim)
    sys.modules["torch.optim"] = optim
    module("deepspeed")
    module("deepspeed.utils", logger=logger)
    module("megatron")
    module("megatron.core")
    module("megatron.core.optimizer", OptimizerConfig=object, ParamKey=object)
    module("megatron.core.utils", log_single_rank=lambda *a, **k: None)
    original = types.ModuleType("original")
    original.__dict__["__package__"] = "megatron.core"
    with open(path) as f:
        exec(compile(f.read(), path, "exec"), original.__dict__)
    return original


DEEPSPEED = [
    ("WarmupLR", 3e-4, {"warmup_num_steps": 10}),
    ("WarmupLR", 1, {"warmup_min_lr": 1e-5, "warmup_max_lr": 1e-3, "warmup_num_steps": 17}),
    ("WarmupLR", 1, {"warmup_min_lr": 1e-5, "warmup_max_lr": 1e-3, "warmup_num_steps": 17, "warmup_type": "linear"}),
    ("WarmupLR", 1, {"warmup_max_lr": 1e-3, "warmup_num_steps": 1}),
    ("WarmupDecayLR", 1, {"total_num_steps": 30, "warmup_max_lr": 1e-3, "warmup_num_steps": 10,
        "warmup_type": "linear"}),
    ("WarmupDecayLR", 1, {"total_num_steps": 53, "warmup_min_lr": 2e-5, "warmup_max_lr": 7e-4, "warmup_num_steps": 13}),
    ("WarmupDecayLR", 1, {"total_num_steps": 5, "warmup_max_lr": 7e-4, "warmup_num_steps": 13}),
    ("WarmupCosineLR", 0.1, {"total_num_steps": 30, "warmup_num_steps": 10, "warmup_type": "linear"}),
    ("WarmupCosineLR", 3e-4, {"total_num_steps": 61, "warmup_num_steps": 7, "warmup_min_ratio": 0.05,
        "cos_min_ratio": 0.1}),
    ("WarmupCosineLR", 3e-4, {"total_num_steps": 5, "warmup_num_steps": 7}),
    ("OneCycle", 1, {"cycle_min_lr": 1e-3, "cycle_max_lr": 1e-2, "cycle_first_step_size": 10, "decay_step_size": 5,
                     "decay_lr_rate": 0.5, "decay_mom_rate": 0.1}),
    ("OneCycle", 1, {"cycle_min_lr": 1e-3, "cycle_max_lr": 1e-2, "cycle_first_step_size": 10,
        "cycle_first_stair_count": 5}),
    ("OneCycle", 1, {"cycle_min_lr": 1e-3, "cycle_max_lr": 1e-2, "cycle_first_step_size": 7,
        "cycle_second_step_size": 19,
                     "cycle_first_stair_count": 3, "cycle_second_stair_count": 4, "decay_step_size": 3,
                         "decay_lr_rate": 0.2,
                     "cycle_min_mom": 0.85, "cycle_max_mom": 0.95}),
    ("OneCycle", 1, {"cycle_min_lr": 1e-3, "cycle_max_lr": 1e-2, "cycle_first_step_size": 6,
        "cycle_second_step_size": 0,
                     "cycle_momentum": False, "decay_step_size": 4, "decay_lr_rate": 0.3}),
    ("LRRangeTest", 1, {"lr_range_test_min_lr": 1e-4, "lr_range_test_step_size": 5}),
    ("LRRangeTest", 1, {"lr_range_test_min_lr": 1e-4, "lr_range_test_step_size": 5, "lr_range_test_step_rate": 2.5,
                        "lr_range_test_staircase": True}),
]


def of_deepspeed(original, name, lr, params):
    optimizer = Optimizer(lr)
    scheduler = getattr(original, name)(optimizer, **params)
    rates, betas = [], []
    for _ in range(UPDATES):
        group = optimizer.param_groups[0]
        rates.append(group["lr"])
        betas.append(group["betas"])
        scheduler.step()
    cycles = name == "OneCycle" and params.get("cycle_momentum", True)
    return {"type": name, "lr": lr, "params": params, "rates": rates, "betas": betas if cycles else None}


BATCH = 4
MEGATRON = [
    {"lr_decay_style": style, "max_lr": 1e-3, "min_lr": 1e-5, "init_lr": init, "lr_warmup_steps": warmup,
        "lr_decay_steps": 200,
     "wsd_decay_steps": 60, "lr_wsd_decay_style": wsd, "start_wd": 0.01, "end_wd": 0.1, "wd_incr_style": wd,
         "wd_incr_steps": 180}
    for style, init, warmup, wsd, wd in [
        ("constant", 0.0, 20, "linear", "linear"), ("linear", 0.0, 20, "linear", "cosine"),
            ("linear", 1e-4, 22, "linear", "linear"),
        ("cosine", 0.0, 20, "linear", "cosine"), ("cosine", 0.0, 0, "linear", "linear"),
        ("inverse-square-root", 0.0, 20, "linear", "linear"), ("WSD", 0.0, 20, "exponential", "linear"),
        ("WSD", 0.0, 20, "linear", "linear"), ("WSD", 0.0, 20, "cosine", "linear"),
            ("WSD", 0.0, 20, "minus_sqrt", "linear")]]


def of_megatron(original, case):
    optimizer = Optimizer(case["max_lr"])
    scheduler = original.OptimizerParamScheduler(optimizer, override_opt_param_scheduler=False,
                                                 use_checkpoint_opt_param_scheduler=False, **case)
    rates, decays = [], []
    for _ in range(UPDATES):
        group = optimizer.param_groups[0]
        rates.append(group["lr"])
        decays.append(group["weight_decay"])
        scheduler.step(increment=BATCH)
    return {**case, "batch": BATCH, "rates": rates, "decays": decays}


def main():
    deepspeed, megatron, out = sys.argv[1:]
    original = load(deepspeed)
    cases = {"made_by": "tools/make_schedule_golden.py, DeepSpeed 0.19.6, Megatron-LM core",
             "deepspeed": [of_deepspeed(original, *case) for case in DEEPSPEED]}
    original = load(megatron)
    cases["megatron"] = [of_megatron(original, case) for case in MEGATRON]
    with open(out, "w") as f:
        f.write(json.dumps(cases).replace('}, {', '},\n{') + "\n")


main()
