"""Prints the keys of a DeepSpeed JSON that the installed package reads, one path a line, from its source: the fields of its models and the
names of its constants. usage: deepspeed_schema.py FOLDER-OF-THE-PACKAGE"""
import ast
import os
import sys

root = sys.argv[1]
keys = set()


def tree_of(path):
    with open(os.path.join(root, path), encoding="utf-8") as f:
        return ast.parse(f.read())


# ---- the models: class -> [(name, alias, class of its type)] ----
models = {}


def names_in(node):
    return [n.id for n in ast.walk(node) if isinstance(n, ast.Name)]


def read_models(path):
    for node in tree_of(path).body:
        if not isinstance(node, ast.ClassDef):
            continue
        fields = []
        for item in node.body:
            if not isinstance(item, ast.AnnAssign):
                continue
            alias = None
            for call in ast.walk(item.value) if item.value is not None else []:
                if isinstance(call, ast.keyword) and call.arg == "alias":
                    alias = call.value.value
            fields.append((item.target.id, alias, names_in(item.annotation)))
        models[node.name] = ([b.id for b in node.bases if isinstance(b, ast.Name)], fields)


def walk_model(name, path):
    bases, fields = models[name]
    for base in bases:
        if base in models:
            walk_model(base, path)
    for field, alias, types in fields:
        inner = [t for t in types if t in models and models[t][1]]
        for spelling in {field, alias} - {None}:
            if inner:
                walk_model(inner[0], path + "." + spelling)
            else:
                keys.add(path + "." + spelling)


for file in ("runtime/zero/config.py", "runtime/zero/offload_config.py", "runtime/zero/leaf_module_config.py",
    "runtime/zenflow/zenflow_config.py",
             "runtime/precision_config.py", "runtime/config.py", "runtime/tensor_parallel/config.py",
                 "monitor/config.py", "comm/config.py",
             "compile/config.py", "utils/config.py", "inference/config.py"):
    read_models(file)
for model, block in (("DeepSpeedZeroConfig", "zero_optimization"), ("DeepSpeedFP16Config", "fp16"),
    ("DeepSpeedBF16Config", "bf16"),
                     ("DeepSpeedBF16Config", "bfloat16"), ("TensorBoardConfig", "tensorboard"),
                         ("WandbConfig", "wandb"), ("CSVConfig", "csv_monitor"),
                     ("CometConfig", "comet"), ("CommsLoggerConfig", "comms_logger"), ("CompileConfig", "compile"),
                         ("HybridEngineConfig", "hybrid_engine"),
                     ("TPTrainingConfig", "tensor_parallel"), ("DeepSpeedThroughputTimerConfig", "timers.throughput"),
                         ("WeightQuantConfig", "weight_quantization")):
    walk_model(model, block)

# ---- constants: a name that has a default too is a key; where it belongs is said by the first prefix that fits ----
def constants(path):
    found = {}
    for node in tree_of(path).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and isinstance(node.value,
            ast.Constant):
            found[node.targets[0].id] = node.value.value
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = None
    return {n: v for n, v in found.items() if isinstance(v, str) and n + "_DEFAULT" in found}


places = {
    "runtime/constants.py": (("FP16_", "fp16"), ("BFLOAT16_", "bf16"), ("TORCH_AUTOCAST_", "torch_autocast"),
        ("OPTIMIZER_", None), ("SCHEDULER_", None),
                             ("LEGACY_FUSION", "optimizer"),
                                 ("CHECKPOINT_PARALLEL_WRITE_", "checkpoint.parallel_write"),
                                     ("CHECKPOINT_", "checkpoint"),
                             ("LOAD_UNIVERSAL", "checkpoint"), ("USE_NODE_LOCAL", "checkpoint"),
                                 ("GRAD_ACCUM_DTYPE", "data_types"),
                             ("PARAM_DTYPE", "data_types"), ("BUFFER_DTYPE", "data_types"),
                                 ("KEEP_IN_FP32", "data_types"), ("", "")),
    "profiling/constants.py": (("FLOPS_PROFILER_", "flops_profiler"),),
    "runtime/activation_checkpointing/config.py": (("ACT_CHKPT_", "activation_checkpointing"), ("ACT_CHKPT", None)),
    "runtime/swap_tensor/constants.py": (("AIO_", "aio"),),
    "runtime/model_checkpointing/constants.py": (("CHECKPOINT_TAG", "checkpoint"),
        ("CHECKPOINT_SERIALIZATION", "checkpoint"), ("CHECKPOINT_WRITER_", "checkpoint.writer"),
                                                 ("CHECKPOINT_WRITER", None), ("CHECKPOINT_", "checkpoint.writer")),
    "autotuning/constants.py": (("AUTOTUNING_", "autotuning"), ("MODEL_INFO_", "autotuning.model_info")),
    "runtime/data_pipeline/constants.py": (("DATA_EFFICIENCY_", "data_efficiency"),
        ("DATA_SAMPLING_", "data_efficiency.data_sampling"),
                                           ("CURRICULUM_LEARNING_",
                                               "data_efficiency.data_sampling.curriculum_learning"),
                                           ("DYNAMIC_BATCHING_", "data_efficiency.data_sampling.dynamic_batching"),
                                               ("DATA_ROUTING_", "data_efficiency.data_routing"),
                                           ("RANDOM_LTD_LAYER_TOKEN_LR_",
                                               "data_efficiency.data_routing.random_ltd.layer_token_lr_schedule"),
                                           ("RANDOM_LTD_", "data_efficiency.data_routing.random_ltd"),
                                               ("CURRICULUM_ENABLED_LEGACY", "curriculum_learning")),
}
for file, prefixes in places.items():
    for name, value in constants(file).items():
        block = next((b for p, b in prefixes if name.startswith(p)), None)
        if block is not None and value not in ("check_overflow",):
            keys.add((block + "." if block else "") + value)

# ---- keys that are read by name ----
def texts_of(call):
    return [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]


def read_by_name(path, function, block):
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef) and node.name == function:
            for call in ast.walk(node):
                if isinstance(call, ast.Call) and isinstance(call.func,
                    ast.Attribute) and call.func.attr == "get" and texts_of(call):
                    keys.add(block + "." + texts_of(call)[0])
                if isinstance(call, ast.Dict):
                    keys.update(block + "." + k.value for k in call.keys if isinstance(k, ast.Constant))


read_by_name("module_inject/auto_ep_config.py", "parse_autoep_config", "expert_parallel")
for node in ast.walk(tree_of("runtime/config.py")):
    if isinstance(node, ast.FunctionDef) and node.name == "get_pipeline_config":
        keys.update("pipeline." + k.value for d in ast.walk(node) if isinstance(d, ast.Dict) for k in d.keys
            if isinstance(k, ast.Constant))
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict) and getattr(node.targets[0], "id",
        "").startswith("_REMOVED_"):
        inner = "zero_optimization." if "ZERO" in node.targets[0].id else ""
        keys.update(inner + k.value for k in node.value.keys if isinstance(k, ast.Constant))
print("\n".join(sorted(keys)))
