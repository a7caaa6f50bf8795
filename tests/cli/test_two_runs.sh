#!/usr/bin/env bash
# Two runs with one --save: the second is refused, or takes over and the first stops; the run's id; foreign folders in SAVE.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
fox_lines 60 >t.txt
"$MEGALITH" preprocess_data --input t.txt --split-on-blank-lines --tokenizer-type ByteTokenizer --append-eod --output-prefix t >log 2>&1 || fail "preparing the data"
base=(pretrain_gpt --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --micro-batch-size 1 --global-batch-size 1 --lr 1e-3
    --lr-decay-style constant --tokenizer-type ByteTokenizer --data-path t_text_document --split 100,0,0 --eval-iters 0 --num-threads 1
    --save-interval 1 --override-opt_param-scheduler)
run=("${base[@]}" --save save --load save)
host=$(uname -n)

# --- the lock
"$MEGALITH" "${run[@]}" --train-iters 1000000 --keep-checkpoints 2 --metrics-file m.jsonl >first.log 2>&1 &
first=$!
until [ -e save/latest_checkpointed_iteration.txt ] || ! kill -0 $first 2>/dev/null; do sleep 0.02; done
[ -e save/run.lock ] || fail "a run that saves has no lock: $(cat first.log)"
refuses "a second run" "--save save: process $first on host $host has been writing there since 20|--save-takeover" "${run[@]}" --train-iters 5
refuses "a second run by another name" "process $first on host $host" "${base[@]}" --train-iters 5 --save ./save/../save
kill -0 $first || fail "the first run ended: $(tail -n 2 first.log)"
id=$(cat save/run_id.txt)
# The second goes on from the newest checkpoint of the first and is far ahead at once: neither mixes into the other.
"$MEGALITH" "${run[@]}" --train-iters 2000000 --exit-interval 1000000 --save-interval 1000000 --save-takeover >second.log 2>&1 &
second=$!
wait $first && fail "the run that was taken over ends with status 0"
grep -q "error: .*--save save: process $second on host $host took over at 20.*nothing more is written there" first.log || { tail -n 3 second.log; fail "the first run does not say why it ends: $(tail -n 3 first.log)"; }
grep -q "warning: --save save: taken over from process $first on host $host" second.log || fail "no word of the takeover: $(cat second.log)"
grep -q "pid     $second" save/run.lock || fail "the first run's end removed the second's lock"
at=$(cat save/latest_checkpointed_iteration.txt)
until grep -q 'successfully loaded' second.log || ! kill -0 $second 2>/dev/null; do sleep 0.02; done
from=$(sed -n 's/.*successfully loaded checkpoint from .* at iteration \([0-9]*\)$/\1/p' second.log)
[ "$at" -le $((${from:-0} + 1)) ] || fail "the first run saved $at although the second had taken over at $from"
[ -z "$(find save -name '*.tmp-*')" ] || fail "left behind: $(ls save)"
# Dead without a word: the next goes on at once, and is the same run.
kill -9 $second
wait $second 2>/dev/null
[ -e save/run.lock ] || fail "kill -9 removed the lock"
"$MEGALITH" "${run[@]}" --train-iters $((at + 1)) >log 2>&1 || fail "the run after a killed one"
grep -q "process $second on host $host, which began to write there at 20.*, is dead" log || fail "no word of the dead run"
[ ! -e save/run.lock ] || fail "a run that ended left its lock"
[ "$(cat save/run_id.txt)" = "$id" ] || fail "a resumed run has another id"
grep -q "\"run_id\": \"$id\"" "save/$(printf 'iter_%07d' $((at + 1)))/state/run.json" || fail "no id in run.json"
"$MEGALITH" "${base[@]}" --train-iters 2 --save anew --load anew >log 2>&1 || fail "a new run"
[ "$(cat anew/run_id.txt)" != "$id" ] || fail "two runs have one id"
# A start that fails, and an end by a signal, release it as well.
refuses "a start that fails" "its network is not the one asked for" "${run[@]}" --train-iters 5 --hidden-size 32
[ ! -e save/run.lock ] || fail "a start that failed left its lock"
"$MEGALITH" "${base[@]}" --train-iters 3 --skip-train --save nowhere >log 2>&1 || fail "--skip-train"
[ ! -e nowhere ] || fail "--skip-train writes to --save"

# --- folders in SAVE that are not ours are never replaced, and named before anything is computed
foreign() { # NAME FILE: iter_0000004 with that file alone
    rm -rf other
    mkdir -p "other/iter_0000004/$(dirname "$2")"
    echo '{"a": 1}' >"other/iter_0000004/$2"
    refuses "$1" "--save other: iter_0000004 was not written by megalith|move it away" "${base[@]}" --train-iters 6 --save other
    [ "$(cat "other/iter_0000004/$2")" = '{"a": 1}' ] || fail "$1: the folder was changed"
    ls other | grep -qv 'iter_0000004\|run_id.txt' && fail "$1: something was computed: $(ls other)"
}
foreign "a Hugging Face folder" config.json
foreign "a folder of Megatron" mp_rank_00/model_optim_rng.pt
mkdir -p free/iter_0000004 free/iter_0000900
echo x >free/iter_0000900/notes
"$MEGALITH" "${base[@]}" --train-iters 6 --save free >log 2>&1 || fail "an empty folder, and one that is never reached"
[ -e free/iter_0000004/config.json ] && [ -e free/iter_0000900/notes ] || fail "an empty folder takes a checkpoint, a foreign one stays"
finish
