#!/usr/bin/env bash
# How often a GPU's driver is called: a save and a load take a few calls a tensor, also where the file has a tensor
# transposed, as GPT-2's are; beams copy each cache at most once a sample; the update of gradients held in 16 bits is a
# few launches. A wait takes some 10 us on a GPU, a launch 5, and copies of less than a MiB are slow.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
. "$MEGA_SOURCE/tests/kit/software_device.sh"
export MEGA_SOFTWARE_CUDA_COUNTS=1
. "$MEGA_SOURCE/tests/kit/pretrain.sh"
small=(--num-layers 1 --hidden-size 256 --num-attention-heads 4 --seq-length 32 --micro-batch-size 1 --global-batch-size 1
    --lr 1e-3 --lr-decay-iters 20 --tokenizer-type ByteTokenizer --data-path text_text_document --split 80,10,10 --eval-iters 0
    --num-threads 2 --device cuda)
one=(pretrain_gpt "${small[@]}" --train-iters 1)

# count NAME COMMAND…: leaves in NAME.log how often each function of the driver was called
count() {
    local name=$1
    shift
    "$MEGALITH" "$@" >"$name.log" 2>&1 || note "$name: $(tail -2 "$name.log")"
}
# few NAME MOST FUNCTION…: NAME has at most so many more calls than the run without a checkpoint
few() {
    local name=$1 most=$2 more
    shift 2
    for function in "$@"; do
        more=$(($(calls "$name" "$function") - $(calls without "$function")))
        [ $more -le "$most" ] || note "$name: $more calls of $function more than without it; expected at most $most"
    done
}

count without "${one[@]}"
count save "${one[@]}" --save saved
count load pretrain_gpt "${small[@]}" --load saved --save again --train-iters 2
count half "${one[@]}" --bf16 --grad-accum-dtype bf16
count whole "${one[@]}" --bf16
[ "$(calls without cuLaunchKernel)" -gt 20 ] || note "the calls were not counted: $(tail -3 without.log)"
# Parameters in the file; and as many of each of the two moments.
tensors=$((3 * $(tr ',' '\n' <saved/iter_0000001/model.safetensors | grep -ac '"dtype"')))
[ "$tensors" -ge 45 ] || note "only $tensors tensors"
few save $((4 * tensors)) cuStreamSynchronize cuMemcpyDtoHAsync_v2 cuMemcpy2DAsync_v2
few load $((4 * tensors)) cuStreamSynchronize cuMemcpyDtoHAsync_v2 cuMemcpy2DAsync_v2 cuMemcpyHtoDAsync_v2
more=$(($(calls half cuLaunchKernel) - $(calls whole cuLaunchKernel)))
[ $more -le 40 ] || note "gradients held in 16 bits: $more launches more in a step"

# All kernels that a step launches are loaded before it: the last load fails before an iteration is logged.
grep -q '^cuda:0: loaded [0-9]* files of kernels, PTX, [0-9.]* MB, in' without.log || note "no line says what was loaded"
for optimizer in adam sgd lamb muon lion; do
    count $optimizer "${one[@]}" --optimizer $optimizer --log-interval 1
    last=$(calls $optimizer cuModuleLoadDataEx)
    MEGA_SOFTWARE_CUDA_FAIL=cuModuleLoadDataEx:$last "$MEGALITH" "${one[@]}" --optimizer $optimizer \
        --log-interval 1 >failed.log 2>&1 && note "$optimizer: load $last does not fail"
    ! grep -q 'before the start of training step' failed.log || note "$optimizer: a step loads kernels: $(grep -m 1 'error' failed.log)"
done

# The search for a value that is not finite reads results of 8192 and more numbers at once.
"$MEGALITH" pretrain_gpt "${small[@]}" --train-iters 3 --lr 1e30 >nan.log 2>&1 && note "a loss is finite that should not be"
grep -q 'made a value that is not finite' nan.log || note "nothing was found: $(tail -3 nan.log)"
[ "$(calls nan cuMemcpyDtoHAsync_v2)" -le 24 ] || note "the search reads $(calls nan cuMemcpyDtoHAsync_v2) times"

# Caches of one layer, keys and values; a beam alone moves none.
printf 'a prompt\n' >prompt.txt
tokens=10 beams=3
for width in 1 $beams; do
    count beams_$width generate_samples_gpt --load saved --device cuda --num-beams $width --out-seq-length $tokens \
        --sample-input-file prompt.txt --sample-output-file texts.jsonl
done
copies=$(($(calls beams_$beams cuMemcpyDtoDAsync_v2) - $(calls beams_1 cuMemcpyDtoDAsync_v2)))
[ "$copies" -gt 0 ] || note "no cache was copied: $(tail -3 beams_$beams.log)"
[ "$copies" -le $((2 * tokens * (beams + 1))) ] || note "beams: $copies copies of caches in $tokens tokens"
finish
