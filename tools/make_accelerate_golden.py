#!/usr/bin/env python3
"""Writes tests/golden/accelerate/: answers to the questions of `accelerate config`, and the YAML that accelerate makes
of them.

    ACCELERATE_SHORT=src of version 0.14.0  ACCELERATE_FULL=src of version 1.15  python3 tools/make_accelerate_golden.py
    [NAME…]

The short form is that of the transcript in Accelerate's guide to Megatron-LM, which version 0.14 asks (the guide leaves
out
five of its keys that are null); the full form is that of today. Menus are answered by a number, Enter is the default.
"""
import builtins, os, subprocess, sys

import yaml

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden", "accelerate")
CASES = {  # answers, separated by |
    "short_megatron": "0|2||||yes|2||2|2||||4|bf16",
    "short_megatron_plain": "0|2||no|no|YES|||no|no|0|2|",
    "short_one": "0|0||||",
    "short_one_cpu": "0|0|yes||fp16",
    "short_cpu": "0|1||4|",
    "short_hosts": "0|2|2|1|10.0.0.1|29500|no|c10d|||yes|||no|no|0.5|8|FP16",
    "short_zero2": "0|2||yes||||||||4|bf16",
    "short_zero3": "0|2||yes|no|3|cpu|none|4|yes|1e-5|yes|yes|2|bf16",
    "short_zero_hosts": "0|2|2||yes|29500||yes||1||||2|hosts: a #1|yes|a|yes|b@c|8|",
    "short_json": "0|2||yes|yes|ds.json||4",
    "short_fsdp": "0|2|||yes|2||0|GPT2Block|1|2|8|bf16",
    "full_one": "0|0||||||",
    "full_megatron": "0|4||||||yes|2||2|2||||4|2",
    "full_cpu": "0|1||yes|yes|/etc/hosts.txt||4|2",
    "full_gpu": "0|4|||||||2|0,1|yes|0",
    "full_npu": "0|5||||no|no|8||1",
    "full_zero2_hosts": "0|4|2|0|node0|29500||||yes||||||||||0|no: 1|no|yes|node0|8|1",
    "full_zero3": "0|4||||yes||3|2|2||/fast disk|1|yes||yes|yes|no|4|2",
    "full_json": "0|4||||yes|yes|null|no|yes|MixtralSparseMoeBlock|4",
    "full_fsdp1": "0|4|||||yes|1|3|yes|1|1000|1|2|yes|no|no|no|yes|4|2",
    "full_fsdp2": "0|4|||||yes|||||no|GPT2Block,Other||||yes|2|1||2||8|2",
    "full_dynamo": "0|0||yes|0|yes|1|yes||||||2",
    "full_odd_texts": "0|4|2|1|123|29500|no|=|no|||||4|'a' é|no|1",
}


def ask_all(out, is_full, answers):
    """Runs in a process of its own, which has one of the two versions on its path."""
    left = iter(answers)
    builtins.input = lambda prompt="": next(left)
    import accelerate.commands.config as package
    import accelerate.commands.config.cluster as cluster

    cluster.is_deepspeed_available = cluster.is_transformers_available = lambda: True
    module = package
    if is_full:
        import accelerate.commands.config.config as module
        import accelerate.commands.config.config_utils as utils

        def choose(text, options=[], convert_value=None, default=0):
            line = input(text)
            n = int(line) - (options[0] if text.startswith("What should be your FSDP version")
                else 0) if line else default
            return convert_value(n) if convert_value else n

        for place in (utils, cluster, module):
            place._ask_options = choose
    config = module.get_user_input()
    rest = list(left)
    assert not rest, (out, rest)
    if not is_full:
        silent = ("command_file", "commands", "tpu_name", "tpu_zone", "gpu_ids")
        with open(out, "w") as f:
            yaml.safe_dump({k: v for k, v in config.to_dict().items() if k not in silent or v is not None}, f)
        return
    config.to_yaml_file(out)


if sys.argv[1:2] == ["--one"]:
    ask_all(sys.argv[2], sys.argv[3] == "full", sys.argv[4:])
else:
    os.makedirs(OUT, exist_ok=True)
    for name in sys.argv[1:] or CASES:
        text = CASES[name]
        form, answers = name.split("_")[0], text.split("|")
        with open(os.path.join(OUT, name + ".answers"), "w") as f:
            f.write("".join(a + "\n" for a in answers))
        env = dict(os.environ, PYTHONPATH=os.environ["ACCELERATE_FULL" if form == "full" else "ACCELERATE_SHORT"])
        subprocess.run([sys.executable, __file__, "--one", os.path.join(OUT, name + ".yaml"), form, *answers], env=env,
            check=False)
