#!/usr/bin/env bash
# megalith launch with the MPI launcher of this machine: it trains, as root and with more ranks than cores; lines are
# prefixed; the message of the first failing rank comes last; a killed rank ends the others; a restart continues from
# the last checkpoint.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
. "$MEGA_SOURCE/tests/kit/ranks.sh"
# launch must find the options that the MPI launcher needs here.
unset RANK WORLD_SIZE OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OMPI_MCA_btl \
    OMPI_MCA_btl_vader_single_copy_mechanism UCX_TLS
fox_lines 300 >t.txt
"$MEGALITH" preprocess_data --input t.txt --split-on-blank-lines --append-eod --tokenizer-type ByteTokenizer \
    --output-prefix d >prepare 2>&1 ||
    fail "preprocessing: $(cat prepare)"
base=(pretrain_gpt.py --num-layers 1 --hidden-size 32 --num-attention-heads 4 --seq-length 32 \
    --max-position-embeddings 32
    --micro-batch-size 2 --global-batch-size 8 --lr 1e-3 --lr-decay-iters 20 --log-interval 1 --eval-interval 100000
    --tokenizer-type ByteTokenizer --data-path d_text_document --split 90,10,0)
launch() { "$MEGALITH" launch "$@" </dev/null; }
losses() { grep -oE 'iteration +[0-9]+/.*lm loss: [0-9.E+-]+' "$1" | sed -E 's/^iteration +([0-9]+).*lm loss:/\1/'; }

# ---- it trains ----
launch --nproc_per_node 2 --log_dir logs "${base[@]}" --train-iters 4 --eval-iters 0 >out 2>err || fail "two ranks"
grep -v '^\[0\] ' out && note "lines without their rank"
[ "$(losses out | wc -l)" -eq 4 ] || note "four iterations"
[ "$(losses logs/rank_0.log)" = "$(losses out)" ] || note "the log of rank 0"
OMPI_MCA_btl=self,vader UCX_TLS=posix,sysv,self ranks 2 "$MEGALITH" "${base[@]}" --train-iters 4 --eval-iters 0 >plain \
    2>&1 </dev/null || note "plain mpirun: $(tail -n 3 plain)"
[ "$(losses plain)" = "$(losses out)" ] || note "mpirun and launch: other losses"
launch --num_gpus 4 "${base[@]}" --train-iters 2 --eval-iters 0 >out 2>err ||
    note "four ranks, more than there may be cores"
cores=$(nproc)
[ "$cores" -lt 2 ] || [ -n "${OMP_NUM_THREADS:-}" ] ||
    grep -q "using $((cores / 4 > 0 ? cores / 4 : 1)) threads\? a rank" out ||
        note "cores shared among ranks: $(grep threads out)"
WORLD_SIZE=2 RANK=1 launch --nproc_per_node 1 "${base[@]}" --train-iters 1 --eval-iters 0 >out 2>err ||
    note "one rank, whatever the environment says"

# A hostfile of one other host with one slot: its rank runs there. This ssh runs its command here, with an environment
# of its own.
mkdir -p elsewhere
cat >elsewhere/ssh <<'TEXT'
#!/bin/bash
while [[ $1 == -* ]]; do case $1 in -l | -o) shift 2 ;; *) shift ;; esac; done
host=$1
shift
exec env -i PATH="$PATH" HOME="$HOME" ELSEWHERE="$host" sh -c "$*"
TEXT
printf '#!/bin/sh\necho "rank $RANK of $WORLD_SIZE on ${ELSEWHERE:-this host}, $MEGA_ITS_MARK"\n' >where
chmod +x elsewhere/ssh where
echo 'worker.elsewhere slots=1' >one
if [ "$mpi_kind" = openmpi ]; then
    MEGA_ITS_MARK=marked PATH=$work/elsewhere:$PATH launch --hostfile one ./where >out 2>err
    [ "$(cat out)" = 'rank 0 of 1 on worker.elsewhere, marked' ] || note "one rank elsewhere: $(cat out err)"
fi

# On a terminal the status line of a single process is there too, below the lines; in a file it is not.
if command -v script >/dev/null; then
    script -qec \
        "stty cols 100; $MEGALITH launch --nproc_per_node 2 ${base[*]} --train-iters 8 --log-interval 4 --eval-iters 0" /dev/null >seen 2>&1 </dev/null || note "a run on a terminal"
    grep -aq $'\r\033\\[Kiteration [0-9]* of 8, [0-9]* %, loss [0-9.]*, [0-9]* tokens/s, .* left' seen ||
        { cp seen out; note "no status line on a terminal"; }
    grep -aq $'\r\033\\[K\\[0\\] .* iteration  *[48]/' seen ||
        { cp seen out; note "the status line is not below the lines"; }
    grep -aq $'\035' seen && note "a mark on the terminal"
fi

# ---- failures ----
launch --nproc_per_node 2 "${base[@]}" --train-iters 2 --data-path nowhere >out 2>err
[ $? -eq 1 ] || note "exit status of a missing file"
tail -n 1 err | grep -q 'error: \(rank [0-9]: \)\?--data-path nowhere.*are not there' ||
    note "the last line is not the reason"
launch --nproc_per_node 2 --max-restarts 2 "${base[@]}" --train-iters 2 --data-path nowhere >out 2>err
[ "$(grep -c 'megalith launch: no restart: ' err)" -eq 1 ] && ! grep -q 'restart 1 of' err ||
    note "a missing file is tried again"
launch --nproc_per_node 2 "${base[@]}" --train-iters 2 --tensor-model-parallel-size 3 >out 2>err
[ $? -eq 2 ] || note "exit status of a mistake in the command line"

# killed PATTERN WHEN: kills the last rank of the training that the pattern names, once the file out shows WHEN.
killed() {
    local pid
    for _ in $(seq 1 300); do
        grep -q "$2" out && break
        sleep 0.1
    done
    pid=$(pgrep -f "^$MEGALITH pretrain_gpt .*$1" | tail -n 1)
    [ -n "$pid" ] && kill -9 "$pid"
}
rm -f out err
launch --nproc_per_node 2 "${base[@]}" --train-iters 100001 --eval-iters 0 >out 2>err &
launcher=$!
killed 'train-iters 100001' 'iteration  *3/' || fail "no rank to kill"
began=$(date +%s)
wait "$launcher"
status=$?
# 1: another rank told of it first
[ $status -eq 137 ] || [ $status -eq 1 ] || note "exit status $status of a killed rank"
[ $(($(date +%s) - began)) -le "$(at_most 10)" ] || note "a killed rank was waited for"
tail -n 1 err | grep -q 'ended by signal 9\|rank [01] (process [0-9]*) is dead' ||
    note "the last line is not the killed rank"
pgrep -f "^$MEGALITH pretrain_gpt .*train-iters 100001" >/dev/null && note "a rank lives on"

# ---- restarts ----
rm -f out err
launch --nproc_per_node 2 --max-restarts 1 "${base[@]}" --train-iters 403 --lr-decay-iters 400 --save keep \
    --save-interval 20 --eval-iters 0 >out 2>err &
launcher=$!
killed 'train-iters 403' 'successfully saved checkpoint at iteration  *40 ' || fail "no rank to kill"
wait "$launcher" || note "a restart goes on"
grep -q 'restart 1 of 1, 2 ranks, from the last checkpoint of keep' err || note "no word of the restart"
losses out | tail -n 5 >again
[ "$(losses out | awk '{print $1}' | sort -n | uniq -d | wc -l)" -le 60 ] || note "it began anew"
[ "$(cat keep/latest_checkpointed_iteration.txt)" = 403 ] || note "it did not reach the end"
launch --nproc_per_node 2 "${base[@]}" --train-iters 403 --lr-decay-iters 400 --eval-iters 0 >out 2>err ||
    note "without a death"
losses out | tail -n 5 | cmp -s - again || note "other losses than without a death"

finish
