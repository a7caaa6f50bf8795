#!/usr/bin/env bash
# Two runs with one --save: the second is refused, or takes over and the first stops; the run's id; folders of others in
# SAVE.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
fox_lines 60 >t.txt
"$MEGALITH" preprocess_data --input t.txt --split-on-blank-lines --tokenizer-type ByteTokenizer --append-eod \
    --output-prefix t >log 2>&1 || fail "preparing the data"
base=(pretrain_gpt --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --micro-batch-size 1 \
    --global-batch-size 1 --lr 1e-3
    --lr-decay-style constant --tokenizer-type ByteTokenizer --data-path t_text_document --split 100,0,0 --eval-iters \
        0 --num-threads 1
    --save-interval 1 --override-opt_param-scheduler)
run=("${base[@]}" --save save --load save)
host=$(uname -n)

# --- the lock
"$MEGALITH" "${run[@]}" --train-iters 1000000 --keep-checkpoints 2 --metrics-file m.jsonl >first.log 2>&1 &
first=$!
until [ -e save/latest_checkpointed_iteration.txt ] || ! kill -0 $first 2>/dev/null; do sleep 0.02; done
[ -e save/run.lock ] || fail "a run that saves has no lock: $(cat first.log)"
refuses "a second run" "--save save: process $first on host $host has been writing there since 20|--save-takeover" \
    "${run[@]}" --train-iters 5
refuses "a second run by another name" "process $first on host $host" "${base[@]}" --train-iters 5 --save ./save/../save
# What the first removes meanwhile is no second mistake: its checkpoints are not read.
kill -STOP $first
until grep -qs '^State:.[TZ]' /proc/$first/status; do sleep 0.01; done
newest=$(printf 'save/iter_%07d' "$(cat save/latest_checkpointed_iteration.txt)")
mv "$newest/state" state
refuses "a second run while checkpoints go" "error: --save save: process $first on host $host has been writing there" \
    "${run[@]}" --train-iters 5
mv state "$newest/state"
kill -CONT $first
kill -0 $first || fail "the first run ended: $(tail -n 2 first.log)"
id=$(cat save/run_id.txt)
# The second continues from the newest checkpoint of the first and is soon far ahead: the two runs never mix their
# files.
"$MEGALITH" "${run[@]}" --train-iters 2000000 --exit-interval 1000000 --save-interval 1000000 --save-takeover \
    >second.log 2>&1 &
second=$!
wait $first && fail "the run that was taken over ends with status 0"
grep -q "error: .*--save save: process $second on host $host took over at 20.*nothing more is written there" first.log \
    || { tail -n 3 second.log; fail "the first run does not say why it ends: $(tail -n 3 first.log)"; }
grep -q "pid     $second" save/run.lock || fail "the first run's end removed the second's lock"
at=$(cat save/latest_checkpointed_iteration.txt)
# (the first ends as soon as the lock is another's, which is before the second says so)
until grep -q 'successfully loaded' second.log || ! kill -0 $second 2>/dev/null; do sleep 0.02; done
grep -q "warning: --save save: taken over from process $first on host $host" second.log ||
    fail "no word of the takeover: $(cat second.log)"
from=$(sed -n 's/.*successfully loaded checkpoint from .* at iteration \([0-9]*\)$/\1/p' second.log)
[ "$at" -le $((${from:-0} + 1)) ] || fail "the first run saved $at although the second had taken over at $from"
[ -z "$(find save -name '*.tmp-*')" ] || fail "left behind: $(ls save)"
# After a kill -9 the next run continues at once, with the same run id.
kill -9 $second
wait $second 2>/dev/null
[ -e save/run.lock ] || fail "kill -9 removed the lock"
"$MEGALITH" "${run[@]}" --train-iters $((at + 1)) >log 2>&1 || fail "the run after a killed one"
grep -q "process $second on host $host, which began to write there at 20.*, is dead" log ||
    fail "no word of the dead run"
[ ! -e save/run.lock ] || fail "a run that ended left its lock"
[ "$(cat save/run_id.txt)" = "$id" ] || fail "a resumed run has another id"
grep -q "\"run_id\": \"$id\"" "save/$(printf 'iter_%07d' $((at + 1)))/state/run.json" || fail "no id in run.json"
"$MEGALITH" "${base[@]}" --train-iters 2 --save anew --load anew >log 2>&1 || fail "a new run"
[ "$(cat anew/run_id.txt)" != "$id" ] || fail "two runs have one id"
# A start that fails, and an end by a signal, release the lock too.
refuses "a start that fails" "its network is not the one asked for" "${run[@]}" --train-iters 5 --hidden-size 32
[ ! -e save/run.lock ] || fail "a start that failed left its lock"
"$MEGALITH" "${base[@]}" --train-iters 3 --skip-train --save nowhere >log 2>&1 || fail "--skip-train"
[ ! -e nowhere ] || fail "--skip-train writes to --save"

# --- a takeover that cannot start ends no other run: with a mistake in the options, and with one in files
"$MEGALITH" "${base[@]}" --train-iters 2000000 --save-interval 2000000 --log-interval 1 --save kept >first.log 2>&1 &
first=$!
until grep -qs '^ iteration ' first.log && [ -e kept/run.lock ] || ! kill -0 $first 2>/dev/null; do sleep 0.02; done
refuses "a takeover with a mistake" "--log-interval" "${base[@]}" --train-iters 5 --save kept --save-takeover \
    --log-interval nine
case $refused in *'taken over'*) note "a mistyped command took over: $refused" ;; esac
# (its --metrics-file is checked after the lock is taken)
echo notes >notes.txt
refuses "a takeover that fails later" "--save kept: given back to process $first|notes.txt" \
    "${base[@]}" --train-iters 5 --save kept --save-takeover --metrics-file notes.txt
grep -q "pid     $first" kept/run.lock || fail "the lock was not given back: $(cat kept/run.lock)"
kill -TERM $first
wait $first || fail "the first run ended after takeovers that failed: $(tail -n 3 first.log)"
[ -e kept/latest_checkpointed_iteration.txt ] && [ ! -e kept/run.lock ] || fail "the first run did not save: $(ls kept)"

# --- a lock file that somebody deleted is created again, and the run continues
"$MEGALITH" "${base[@]}" --train-iters 2000000 --keep-checkpoints 1 --save bare >first.log 2>&1 &
first=$!
until [ -e bare/latest_checkpointed_iteration.txt ] || ! kill -0 $first 2>/dev/null; do sleep 0.02; done
rm bare/run.lock
until [ -e bare/run.lock ] || ! kill -0 $first 2>/dev/null; do sleep 0.02; done
refuses "a run after the lock was removed" "--save bare: process $first on host $host" "${base[@]}" --train-iters 5 \
    --save bare
kill -TERM $first
wait $first || fail "a run whose lock was removed ended: $(tail -n 3 first.log)"
grep -q 'warning: --save bare: bare/run.lock was removed while this process writes there; it has been created again' \
    first.log || fail "no warning: $(tail -n 3 first.log)"
[ ! -e bare/run.lock ] || fail "a lock that was made again stays"
"$MEGALITH" "${base[@]}" --train-iters 2000000 --save-interval 2000000 --log-interval 1 --save gone >folder.log 2>&1 &
first=$!
until grep -qs '^ iteration ' folder.log || ! kill -0 $first 2>/dev/null; do sleep 0.02; done
rm -r gone # and all that it lies in
kill -TERM $first
wait $first && [ -e gone/latest_checkpointed_iteration.txt ] ||
    fail "a run whose folder was removed does not save: $(tail -n 3 folder.log)"

# --- SAVE is created while a run starts: the run must not start from random weights and overwrite what another run
# saved meanwhile
"$MEGALITH" train_tokenizer --input t.txt --vocab-size 258 --output bpe >log 2>&1 || fail "a tokenizer"
words=("${base[@]}" --tokenizer-type GPT2BPETokenizer --vocab-file bpe/vocab.json --train-iters 2 --save late --load \
    late)
# its merges come from a pipe that holds less than their first line: `reads` is there once the run has looked at SAVE
# and reads
"$MEGALITH" "${words[@]}" --merge-file <(
    printf '#version: 0.2%200000s\n' ''
    touch reads
    until [ -e faster ]; do sleep 0.02; done
    tail -n +2 bpe/merges.txt
) >slow.log 2>&1 &
slow=$!
until [ -e reads ] || ! kill -0 $slow 2>/dev/null; do sleep 0.02; done
"$MEGALITH" "${words[@]}" --merge-file bpe/merges.txt >log 2>&1 || fail "the faster run"
before=$(cat late/iter_0000002/state/checksums.json)
touch faster
wait $slow && fail "the slower run ends with status 0"
grep -q 'error: .*--save late: another run made this folder and saved checkpoints there' slow.log ||
    fail "the slower run does not say why: $(tail -n 3 slow.log)"
[ "$(cat late/iter_0000002/state/checksums.json)" = "$before" ] ||
    fail "the slower run replaced a checkpoint of the faster one"
# --- started at the same instant: only one writes, or one after the other
for i in 1 2 3 4 5; do
    for k in 1 2; do "$MEGALITH" "${base[@]}" --train-iters 3 --save "both$i" --load "both$i" >both$k.log 2>&1 & \
        pids[k]=$!; done
    ended=0
    for k in 1 2; do wait ${pids[k]} && ended=$((ended + 1)); done
    grep -lq "on host $host has been writing there since\|another run made this folder" both[12].log
    other=$?
    [ $ended -eq 2 ] && grep -lq 'successfully loaded' both[12].log && other=0
    [ $ended -ge 1 ] && [ $other -eq 0 ] || fail "two runs at once: $ended ended well: $(tail -n 2 both1.log both2.log)"
done

# --- folders of others in SAVE are never replaced; the message comes before anything is computed
foreign() { # NAME FILE: iter_0000004 with that file alone
    rm -rf other
    mkdir -p "other/iter_0000004/$(dirname "$2")"
    echo '{"a": 1}' >"other/iter_0000004/$2"
    refuses "$1" "--save other: iter_0000004 was not written by megalith|move it away" "${base[@]}" --train-iters 6 \
        --save other
    [ "$(cat "other/iter_0000004/$2")" = '{"a": 1}' ] || fail "$1: the folder was changed"
    ls other | grep -qv 'iter_0000004\|run_id.txt' && fail "$1: something was computed: $(ls other)"
}
foreign "a Hugging Face folder" config.json
foreign "a folder of Megatron" mp_rank_00/model_optim_rng.pt
# The tracker file of another program is not replaced either, because that program resumes from it.
tracked() { # NAME IN-TRACKER FOLDER
    rm -rf other
    mkdir -p "other/$3/mp_rank_00"
    echo x >"other/$3/mp_rank_00/model_optim_rng.pt"
    printf %s "$2" >other/latest_checkpointed_iteration.txt
    refuses "$1" \
        "--save other: its latest_checkpointed_iteration.txt names $3, which was not written by megalith|move both away" \
        "${base[@]}" --train-iters 6 --save other
    [ "$(cat other/latest_checkpointed_iteration.txt)" = "$2" ] || fail "$1: the tracker was changed"
}
tracked "a tracker of Megatron" 5000 iter_0005000
tracked "a tracker of a release" release release
mkdir -p mine/iter_0000100.tmp-backup mine/iter_0000100.exchange-old
"$MEGALITH" "${base[@]}" --train-iters 2 --save mine >log 2>&1 || fail "a run beside folders with other endings"
[ -d mine/iter_0000100.tmp-backup ] && [ -d mine/iter_0000100.exchange-old ] ||
    fail "a user's copies were removed: $(cat log)"
mkdir -p free/iter_0000004 free/iter_0000900
echo x >free/iter_0000900/notes
"$MEGALITH" "${base[@]}" --train-iters 6 --save free >log 2>&1 || fail "an empty folder, and one that is never reached"
[ -e free/iter_0000004/config.json ] && [ -e free/iter_0000900/notes ] ||
    fail "an empty folder takes a checkpoint, a foreign one stays"
finish
