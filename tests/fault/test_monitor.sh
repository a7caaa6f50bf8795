#!/usr/bin/env bash
# Metrics, TensorBoard events and a trace that cannot be written for a while: there is one warning and the training
# continues. Waiting rows are written when there is space or the folder is back; rows that are lost in the end are
# listed.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
pid=
trap '[ -z "$pid" ] || kill -9 $pid 2>/dev/null; rm -rf "$work"' EXIT
fox_lines 60 >t.txt
"$MEGALITH" preprocess_data --input t.txt --split-on-blank-lines --tokenizer-type ByteTokenizer --append-eod \
    --output-prefix t >log 2>&1 || fail "data"
base=(pretrain_gpt --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --micro-batch-size 1 \
    --global-batch-size 1 --lr 1e-3
    --lr-decay-style constant --tokenizer-type ByteTokenizer --data-path t_text_document --split 100,0,0 --eval-iters 0
    --num-threads 1 --log-interval 1000)
# begin OPTIONS…: starts a training in the background. Its output reaches the file log through a pipe, so that no limit
# on files affects it
begin() {
    "$MEGALITH" "${base[@]}" --train-iters 1000000 "$@" > >(ulimit -S -f unlimited; exec cat >log) 2>&1 </dev/null &
    pid=$!
}
await() { # until a command is true, 30 s at most
    for _ in $(seq 1 1200); do
        "$@" 2>/dev/null && return 0
        kill -0 $pid 2>/dev/null || fail "the training ended: $*"
        sleep 0.025
    done
    fail "never: $*"
}
end() {
    kill -TERM $pid
    wait $pid
    local status=$?
    pid=
    await_end grep -q 'exiting program at iteration' log
    [ $status -eq 0 ] || note "status $status after SIGTERM: $*"
}
await_end() { for _ in $(seq 1 400); do "$@" && return 0; sleep 0.025; done; fail "never: $*"; } # the pipe of the log
said() { grep -qE -e "$1" log; }
# rows FILE FROM: every iteration from there to the last that was trained, in order
rows() {
    local last
    last=$(sed -n 's/.*exiting program at iteration \([0-9]*\).*/\1/p' log)
    sed -n 's/^{"iteration": \([0-9]*\), .*"lm_loss".*}$/\1/p' "$1" |
        awk -v n="$2" -v last="$last" '$1 != n++ {bad = 1} END {exit bad || n != last + 1}'
}

# --- a limit on the size of files, which acts like a full disk: raised while the training runs
if command -v prlimit >/dev/null; then
    ulimit -S -f 48 # more than the description of the run, m.jsonl.run.json, takes
    begin --metrics-file m.jsonl --profile-trace trace.json --profile-step-start 3 --profile-step-end 20
    ulimit -S -f unlimited
    await said \
        'warning: --metrics-file: m.jsonl: cannot write: File too large; .*; the training continues; what cannot be written is kept in memory'
    await said 'warning: --profile-trace: trace.json[^ ]*: cannot write: File too large.*; the training continues'
    prlimit --pid $pid --fsize=unlimited || fail "raising the limit"
    await said '--metrics-file m.jsonl: can be written again'
    end "file too large"
    [ "$(grep -c 'the training continues' log)" = 2 ] ||
        note "a warning each, and no more: $(grep -c 'the training continues' log)"
    said 'are (missing|lost)' && note "nothing is missing: $(grep -E 'are (missing|lost)' log)"
    rows m.jsonl 1 || note "rows after a full disk"
    python3 -c 'import json; json.load(open("trace.json"))' 2>/dev/null || tail -c 4 trace.json | grep -q ']}' ||
        note "the trace was not written in the end"
fi

# --- progress.txt cannot be written (a folder has its name): saving continues
mkdir -p progress/progress.txt
"$MEGALITH" "${base[@]}" --train-iters 4 --save progress --save-interval 1 --log-progress >log 2>&1 ||
    note "progress.txt ends the training: $(tail -n 2 log)"
[ "$(cat progress/latest_checkpointed_iteration.txt)" = 4 ] ||
    note "checkpoints after progress.txt could not be written"
[ \
    "$(grep -c 'warning: --log-progress: progress/progress.txt: cannot open for writing: Is a directory.*; the training continues' log)" = 1 ] ||
    note "no warning, or several, on progress.txt: $(grep -F progress.txt log)"
said 'warning: --log-progress progress/progress.txt: lines on checkpoints of iterations 1 to 4 are missing' ||
    note "what progress.txt lacks"
begin --save progress --load progress --override-opt_param-scheduler --save-interval 50 --keep-checkpoints 1 \
    --log-progress
await said 'warning: --log-progress: '
rmdir progress/progress.txt
await said '--log-progress progress/progress.txt: can be written again'
end "progress.txt"
said 'are (missing|lost)' && note "nothing of progress.txt is missing: $(grep -E 'are (missing|lost)' log)"
[ "$(grep -c 'saved checkpoint' progress/progress.txt)" = "$(grep -c 'successfully saved' log)" ] ||
    note "lines of progress.txt: $(head -n 3 progress/progress.txt)"

# --- the folder of both is moved away and comes back: nothing is missing
mkdir far
# writes events
begin --metrics-file far/m.jsonl --tensorboard-dir far/events --split 90,10,0 --eval-interval 20 --eval-iters 1
await test -s far/m.jsonl
mv far away
await said 'warning: --metrics-file: far/m.jsonl: cannot open for writing: No such file'
await said 'warning: --tensorboard-dir: far/events/[^ ]*: cannot open for writing: No such file'
mv away far
await said '--metrics-file far/m.jsonl: can be written again'
await said '--tensorboard-dir far/events: can be written again'
end "a folder that came back"
said 'are (missing|lost)' && note "nothing is missing: $(grep -E 'are (missing|lost)' log)"
rows far/m.jsonl 1 || note "rows after the folder came back"

# --- the folder is removed and does not come back
begin --metrics-file far/gone/m.jsonl
await test -s far/gone/m.jsonl
while [ -e far ]; do rm -rf far 2>rm.log; done # a row that comes while rm is at work begins the file again
await said 'warning: --metrics-file: far/gone/m.jsonl: cannot open for writing'
end "a folder that is gone"
said \
    'warning: --metrics-file far/gone/m.jsonl: rows of iterations 1 to [0-9]* are missing: far/gone/m.jsonl: cannot open' ||
    note "what is missing: $(grep warning log)"
# --- a metrics file that somebody deletes is created again
begin --metrics-file m2.jsonl
await test -s m2.jsonl
rm m2.jsonl
await said \
    'warning: --metrics-file m2.jsonl: it was removed, or could not be written for long: rows of iterations 1 to [0-9]* are lost'
end "a file that is gone"
first=$(sed -n 's/.*rows of iterations 1 to \([0-9]*\) are lost$/\1/p' log)
rows m2.jsonl $((first + 1)) || note "rows after the removal: $(head -c 100 m2.jsonl)"
finish
