#!/usr/bin/env bash
# megalith measure-device on the CPU and on the software device; the times of ops in a profile are those of the device.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"

# measured DEVICE: all figures are there, above 0, in the table and in the record
measured() {
    local name
    "$MEGALITH" measure-device --device "$1" --quick --output "$1.json" >"$1.txt" 2>&1 ||
        { note "$1: $(tail -2 "$1.txt")"; return; }
    for name in copy_to_device copy_from_device copy_on_device add_f32 add_bf16 gemm_small_f32 gemm_small_grad_x_f32 \
        gemm_small_grad_w_bf16 attention_32_64_f32 attention_grad_32_64_bf16 step_small_f32 step_small_bf16; do
        grep -qE "^  $name +[0-9.e+-]+ +(GB/s|TFLOP/s|tokens/s) " "$1.txt" || note "$1: no $name in the table"
        grep -qE "\"name\": \"$name\", \"value\": [0-9.e+-]+, \"unit\": \"[A-Za-z]+/s\", \"detail\"" "$1.json" ||
            note "$1: no $name in the record"
    done
    command -v python3 >/dev/null || return
    python3 "$MEGA_SOURCE/bench/table.py" "$1.json" >table.md 2>why || note "$1: bench/table.py: $(tail -1 why)"
}
measured cpu
grep -qE '^  gemm_small_f32 .* % of peak' cpu.txt || note "no share of the CPU's peak: $(cat cpu.txt)"
refuses "a word" 'found now|--device, --output or --quick' measure-device now
refuses "a GPU elsewhere" '--device h100|only a device that is here can be measured' measure-device --device h100
refuses "a file" '/no/such' measure-device --device cpu --quick --output /no/such/file.json
"$MEGALITH" measure-device --help | grep -q '^usage: megalith measure-device' || note "no help"

. "$MEGA_SOURCE/tests/kit/software_device.sh"
measured cuda
grep -q 'these figures mean nothing' cuda.txt && grep -q 'its figures mean nothing' cuda.json || note "the figures are taken for a GPU's"
# A step that fails has no figure.
launches=$(MEGA_SOFTWARE_CUDA_COUNTS=1 "$MEGALITH" measure-device --device cuda --quick 2>&1 |
    sed -n 's/.*calls of cuLaunchKernel: //p')
MEGA_SOFTWARE_CUDA_FAIL=cuLaunchKernel:$((${launches:-0} - 3)) refuses "a failed step" 'of CUDA)|CUDA_ERROR' measure-device \
    --device cuda --quick
MEGA_SOFTWARE_CUDA_FAIL=cuLaunchKernel:$((${launches:-0} - 3)) "$MEGALITH" measure-device --device cuda --quick >step.txt 2>&1
grep -q step_small_f32 step.txt && ! grep -q step_small_bf16 step.txt || note "a failed step has a figure: $(tail -4 step.txt)"
MEGA_SOFTWARE_CUDA_FAIL=cuLaunchKernel:9 refuses "a failed launch" 'of CUDA)|CUDA_ERROR' measure-device --device cuda --quick

# The software device takes a microsecond for a piece of work: so do the events of a profile, whatever the host took.
. "$MEGA_SOURCE/tests/kit/pretrain.sh"
"$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 4 --eval-iters 0 --device cuda --profile-step-start 1 \
    --profile-step-end 3 --profile-trace trace.json --profile-table >profile.txt 2>&1 || note "$(tail -2 profile.txt)"
grep '"tid":1,' trace.json | grep -oE '"dur":[0-9.]+' | cut -d: -f2 >durations
[ "$(wc -l <durations)" -gt 100 ] || note "only $(wc -l <durations) events of instructions"
awk '$1 != int($1) { bad = bad " " $1 } $1 > 0 { n++ } END { if (bad != "" || n < 100) { print n + 0 " above 0;" bad; exit 1 } }' \
    durations >uneven || note "times that are not the device's: $(cut -c1-300 uneven)"
grep '"tid":1,' trace.json | grep -oE '"ts":[0-9.]+' | cut -d: -f2 | sort -nc 2>why || note "events in another order: $(cat why)"
has profile.txt '^ (linear|gemm|attention) '
finish
