#!/usr/bin/env bash
# Experts that ranks of ep divide, on the software device: the losses and norms of one rank on the CPU, through the
# memory of the host and by NCCL, also with buckets that ZeRO cuts over edp.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
. "$MEGA_SOURCE/tests/kit/software_device_ranks.sh"
export MEGA_NCCL_LIBRARY=$MEGA_CUDA_LIBRARY MEGA_SOFTWARE_CUDA_DEVICES=4 command=run_clm
for i in $(seq 1 60); do echo "the cat sat on the mat and the dog sat on the log, $i times"; done >cats.txt
mkdir small
cat >small/config.json <<'END'
{"model_type": "qwen2_moe", "vocab_size": 257, "hidden_size": 32, "intermediate_size": 48, "moe_intermediate_size": 24,
 "shared_expert_intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
 "max_position_embeddings": 32, "num_experts": 4, "num_experts_per_tok": 2, "mlp_only_layers": [0]}
END
options=(--config_name small --tokenizer-type ByteTokenizer --train_file cats.txt
    --block_size 16 --max_steps 3 --learning_rate 3e-3 --log-interval 1 --num-threads 1 --global-batch-size 8 --seed 3)
train cpu --per_device_train_batch_size 2 --device cpu
row() { # RANKS OPTIONS…
    ranks "$1" timeout 300 "$MEGALITH" run_clm "${options[@]}" --per_device_train_batch_size 2 --device cuda "${@:2}" \
        >gpu.log 2>&1 </dev/null || { note "$*: $(grep -m 3 -E 'error|touch|software' gpu.log)"; return; }
    keep_losses gpu
    alike cpu gpu || note "... of $*"
}
row 2 --expert-model-parallel-size 2 --distributed-backend mpi
row 2 --expert-model-parallel-size 2 --distributed-backend nccl --zero-stage 2
row 4 --expert-model-parallel-size 2 --distributed-backend nccl --zero-stage 3
finish
