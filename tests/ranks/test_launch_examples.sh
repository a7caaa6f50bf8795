#!/usr/bin/env bash
# Programs of examples/, compiled as a user compiles them, under megalith launch and its spellings: they train alike
# under each; a killed rank, a stall and Ctrl-C are reported as for the commands; --log_dir and --max-restarts work. The
# program of megalith new, which loads its checkpoints, continues after a restart.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
. "$MEGA_SOURCE/tests/kit/ranks.sh"
command -v pkg-config >/dev/null || skip "pkg-config is not there"
unset RANK WORLD_SIZE OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OMPI_MCA_btl \
    OMPI_MCA_btl_vader_single_copy_mechanism UCX_TLS OMP_NUM_THREADS
cc=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$MEGA_BUILD/CMakeCache.txt")
sanitize=$(sed -n 's/^MEGA_SANITIZE:[A-Z]*=//p' "$MEGA_BUILD/CMakeCache.txt")
extra=()
if [ -n "$sanitize" ]; then extra=("-fsanitize=$sanitize"); fi
cmake --install "$MEGA_BUILD" --prefix "$work/at" >log 2>&1 || fail "cmake --install: $(cat log)"
PKG_CONFIG_PATH=$(dirname "$(find "$work/at" -name megalith.pc)")
export PKG_CONFIG_PATH
compile() { # NAME FILE options…
    local name=$1 file=$2
    shift 2
    # shellcheck disable=SC2046  # lists of words
    $cc -std=c11 -O1 $(pkg-config --cflags megalith) "${extra[@]}" "$@" "$MEGA_SOURCE/examples/$file" -o "$name" \
        $(pkg-config --libs megalith) -lm ||
        fail "$file does not compile"
}
small=(-DLAYERS=2 -DWIDTH=32 -DHEADS=2 -DSEQ=32)
compile gpt_lite gpt_lite.c "${small[@]}" -DSTEPS=12
long=long_$$ poet=poet_$$ # processes are found by these names, and other tests may run at the same time
compile $long gpt_lite.c "${small[@]}" -DSTEPS=1000000 # to be ended
seq -s ' ' 1 4000 >text
cp "$MEGA_SOURCE/examples/ds_config.json" ds.json

losses() { grep -oE 'step [0-9]+: loss [0-9.]+' "$1"; }
alike() { # NAME: the losses of ./out are those of ./alone, within the last digit that is printed
    paste -d' ' <(losses alone) <(losses out) |
        awk \
        '{ n++; d = $4 - $8; if (NF != 8 || d > 0.0011 || d < -0.0011) bad = $0 } END { if (bad != "" || n != 12) { print n, bad; exit 1 } }' ||
        note "$1: other losses than one rank: $(cat out err)"
}
waits_for() { # PATTERN FILE
    for _ in $(seq 1 300); do
        grep -qs -- "$1" "$2" && return
        sleep 0.1
    done
    fail "no \"$1\" in $2: $(tail -n 3 out err)"
}
rank_of() { pgrep -f "^\./$1 " | tail -n 1; } # of this program; the last one started
gone() { # PROGRAM
    for _ in $(seq 1 300); do pgrep -f "^\./$1 " >/dev/null && sleep 0.1; done
    pgrep -f "^\./$1 " >/dev/null && note "a rank lives on"
}

# ---- it trains, under every spelling ----
./gpt_lite text --lr 1e-2 >alone 2>err || fail "gpt_lite on one rank: $(cat err)"
awk '{ last = $NF } NR == 1 { first = $NF } END { exit !(NR == 12 && last < 0.9 * first) }' alone ||
    note "gpt_lite does not learn: $(cat alone)"
spelling() { # WORDS…
    rm -rf gpt-lite
    "$MEGALITH" "$@" >out 2>err </dev/null || note "$*: $(tail -n 3 err)"
    alike "$*"
    [ -s gpt-lite/iter_0000012/model.safetensors ] || note "$*: no checkpoint"
}
spelling launch --nproc_per_node 2 ./gpt_lite text --lr 1e-2
spelling torchrun --standalone --nproc-per-node=2 ./gpt_lite text --lr 1e-2 --pipeline-model-parallel-size 2
spelling accelerate launch --num_processes 2 --zero_stage 3 ./gpt_lite text --lr 1e-2
rm -rf gpt-lite
./gpt_lite text --deepspeed_config ds.json --lr 1e-2 >alone 2>err || note "gpt_lite with a JSON: $(cat err)"
spelling deepspeed --num_gpus=2 ./gpt_lite text --deepspeed_config ds.json --lr 1e-2
spelling deepspeed --num_gpus=2 ./gpt_lite text --deepspeed --deepspeed_config ds.json --lr 1e-2
# A JSON wins over the program's own settings, however it is given.
sed 's/"lr": 6e-4/"lr": 1e-2/; s/"train_batch_size": 4/"train_batch_size": 8/' ds.json >own.json
./gpt_lite text --deepspeed_config own.json >alone 2>err || note "gpt_lite with its batch in a JSON: $(cat err)"
for word in "--deepspeed own.json" --deepspeed-config=own.json "--deepscale_config own.json"; do
    rm -rf gpt-lite
    # shellcheck disable=SC2086  # words
    ./gpt_lite text $word >out 2>err || note "gpt_lite $word: $(cat err)"
    alike "gpt_lite $word"
done
cmp -s alone <(./gpt_lite text --lr 1e-2 2>err) && note "gpt_lite reads no batch of the JSON"
echo '{"zero_optimization": {"stag": 1}}' >wrong.json
"$MEGALITH" deepspeed --num_gpus=2 ./gpt_lite text --deepspeed_config wrong.json >out 2>err </dev/null &&
    note "a JSON with an unknown key trains"
grep -q '"zero_optimization.stag" (wrong.json, line 1) is not a key' err || note "an unknown key: $(cat err)"

data=${MEGA_TEST_DATA:-$MEGA_SOURCE/../shared/data}/mnist
if [ -f "$data/t10k-images-idx3-ubyte.gz" ]; then
    compile mnist mnist.c -DTRAIN=640 -DTEST=160 -DEPOCHS=2
    digits=("$data/t10k-images-idx3-ubyte.gz" "$data/t10k-labels-idx1-ubyte.gz")
    ./mnist "${digits[@]}" >alone 2>err || note "mnist on one rank: $(cat err)"
    rm -rf digits
    "$MEGALITH" torchrun --nproc_per_node 2 ./mnist "${digits[@]}" >out 2>err </dev/null ||
        note "mnist: $(tail -n 3 err)"
    sed 's/^\[0\] //' out | paste -d' ' alone - |
        awk '{ n++; d = $4 - $12; if (d > 0.0011 || d < -0.0011) bad = 1 } END { exit bad || n != 2 }' ||
        note "mnist: other losses on two ranks: $(cat alone out)"
    [ -d digits ] || note "mnist: no checkpoint"
else
    echo "left out: mnist (its digits are not in shared/data/mnist)"
fi

# ---- logs ----
rm -rf gpt-lite
./gpt_lite text --lr 1e-2 >alone 2>err && rm -rf gpt-lite
"$MEGALITH" launch --nproc_per_node 2 --log_dir logs ./gpt_lite text --lr 1e-2 >out 2>err </dev/null ||
    note "with --log_dir: $(cat err)"
[ "$(losses logs/rank_0.log)" = "$(losses out)" ] && [ "$(losses out | wc -l)" -eq 12 ] && [ -f logs/rank_1.log ] ||
    note "the logs of the ranks: $(ls logs)"

# ---- a killed rank ----
rm -f out err
"$MEGALITH" deepspeed --num_gpus=2 ./$long text --deepspeed_config ds.json >out 2>err </dev/null &
launcher=$!
waits_for 'step 3:' out
kill -9 "$(rank_of $long)"
wait $launcher
status=$?
[ $status -eq 137 ] || [ $status -eq 1 ] || note "exit status $status of a killed rank"
tail -n 1 err | grep -qE '^megalith launch: error: .*(ended by signal 9|rank [01] )' ||
    note "the last line does not name the killed rank: $(tail -n 1 err)"
gone $long

# ---- a stall: a warning that names the rank, and at the limit the end ----
rm -f out err
"$MEGALITH" torchrun --nproc_per_node 2 ./$long text --distributed-timeout-minutes 0.2 >out 2>err </dev/null &
launcher=$!
waits_for 'step 3:' out
victim=$(rank_of $long)
kill -STOP "$victim"
wait $launcher && note "exit status 0 with a stopped rank"
grep -qE 'warning: rank [01] \(process [0-9]+\) has been waiting for' err || note "no warning of the stall: $(cat err)"
grep -qE 'gpt_lite: rank [01] \(process [0-9]+\) has been waiting for' err ||
    note "the stall is not reported: $(cat err)"
grep -q "rank [01] (process $victim) has been stopped by a signal" err || note "who was stopped: $(cat err)"
gone $long

# ---- Ctrl-C ----
# A background job of a script ignores SIGINT otherwise, and so does launch then.
rm -f out err
env --default-signal=INT "$MEGALITH" deepspeed --num_gpus=2 ./$long text --deepspeed_config ds.json >out 2>err \
    </dev/null &
launcher=$!
waits_for 'step 3:' out
kill -INT $launcher
wait $launcher
status=$?
[ $status -eq 130 ] || note "exit status $status after Ctrl-C"
grep -q 'megalith launch: interrupted by Ctrl-C (SIGINT): it is passed on to the ranks' err ||
    note "no answer to Ctrl-C: $(cat err)"
[ "$(tail -n 1 err)" = 'megalith launch: ended by a signal: Ctrl-C (SIGINT)' ] ||
    note "the last line after Ctrl-C: $(tail -n 1 err)"
gone $long

# ---- restarts ----
# gpt_lite loads nothing: it begins again. The program of megalith new continues from its checkpoint.
"$MEGALITH" new $poet >out 2>err || fail "megalith new: $(cat err)"
cd $poet || exit 1
sed -i 's/LAYERS = 4/LAYERS = 2/; s/WIDTH = 128/WIDTH = 32/; s/CONTEXT = 64/CONTEXT = 32/; s/STEPS = 600/STEPS = 1500/
    s/REPORT = 50/REPORT = 10/; s/SAVE = 200/SAVE = 20/; s/WRITTEN = 400/WRITTEN = 40/' $poet.c
make CC="$cc ${extra[*]}" >../log 2>&1 || fail "make: $(cat ../log)"
"$MEGALITH" deepspeed --num_gpus=2 ./$poet ../text --deepspeed_config ds.json >../straight 2>../err </dev/null ||
    note "without a death: $(cat ../err)"
rm -rf checkpoints
"$MEGALITH" launch --nproc_per_node 2 --max_restarts 1 ./$poet ../text --deepspeed_config ds.json >../out 2>../err \
    </dev/null &
launcher=$!
waits_for 'step   50:' ../out
kill -9 "$(rank_of $poet)"
wait $launcher || note "a restart does not continue: $(tail -n 3 ../err)"
grep -q 'restart 1 of 1, 2 ranks, of the same command' ../err || note "no word of the restart: $(cat ../err)"
grep -qE 'continuing from step [0-9]*[02468]0' ../out || note "it began again: $(grep continuing ../out)"
[ "$(grep 'step 1500:' ../out)" = "$(grep 'step 1500:' ../straight)" ] ||
    note "other losses than without a death: $(tail -n 3 ../out ../straight)"
finish
