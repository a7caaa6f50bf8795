#!/usr/bin/env bash
# A signal asks a run to save and end. Sent to megalith launch, to the MPI launcher (which passes it on) or to any one
# rank, it makes all ranks save after the current iteration and end with exit status 0. A second signal ends a run that
# cannot save. A signal during the start of the ranks is not lost, and launch does not wait for ranks that it ended.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
. "$MEGA_SOURCE/tests/kit/ranks.sh"
unset RANK WORLD_SIZE
fox_lines 300 >t.txt
"$MEGALITH" preprocess_data --input t.txt --split-on-blank-lines --append-eod --tokenizer-type ByteTokenizer \
    --output-prefix d >prepare 2>&1 ||
    fail "preprocessing: $(cat prepare)"
base=(pretrain_gpt --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --max-position-embeddings \
    32 --num-threads 1
    --micro-batch-size 2 --global-batch-size 8 --lr 1e-3 --lr-decay-iters 20 --log-interval 1 --eval-interval 1000000 \
        --eval-iters 0
    --tokenizer-type ByteTokenizer --data-path d_text_document --split 100,0,0)

# Waits until the command is true; returns false if the run in the background ends first, or if it takes too long.
until_true() {
    for _ in $(seq 1 6000); do
        "$@" && return
        kill -0 "$run" 2>/dev/null || break
        sleep 0.02
    done
    "$@"
}
begun() { # the third iteration of the run in the background has come
    until_true grep -qs 'iteration  *3/' out || fail "the run does not begin"
}
# Waits for the end of the run in the background and sets $status.
ends() {
    for _ in $(seq 1 1200); do kill -0 "$run" 2>/dev/null && sleep 0.1; done
    kill -0 "$run" 2>/dev/null && fail "$1: the run goes on"
    wait "$run"
    status=$?
}
is_gone() { # no rank lives on; an engine that was killed leaves them to the system for a moment
    for _ in $(seq 1 100); do [ -n "$(a_rank 1)" ] && sleep 0.1; done
    [ -z "$(a_rank 1)" ] || note "$1: a rank lives on"
}
a_rank() { pgrep -f "^$MEGALITH pretrain_gpt .* $mark" | sed -n "$1p"; }
# named NAME SIGNAL: the run that ended has called it by this name, and by no other, also where another signal came
# from the MPI launcher.
named() {
    grep -q "exiting program after receiving SIG$2\." out || note "$1 is called: $(tail -n 3 out)"
    grep -E 'megalith.*(received|interrupted by) ' err | grep -vE "(received |\()SIG$2\)?: " &&
        note "$1 has another name there: $(cat err)"
}
# saved NAME [SIGNAL]: the run in the background succeeds, with a checkpoint of its last iteration; it names SIGNAL.
saved() {
    local last
    ends "$1"
    last=$(grep -oE 'iteration +[0-9]+/' out | tail -n 1 | tr -dc 0-9)
    [ $status -eq 0 ] || note "$1: exit status $status"
    grep -q "exiting program after receiving SIG" out || note "$1: no word of the signal"
    [ -z "${2:-}" ] || named "$@"
    [ "$(cat keep/latest_checkpointed_iteration.txt 2>&1)" = "$last" ] || note "$1: no checkpoint of iteration $last"
    is_gone "$1"
    "$MEGALITH" "${base[@]}" --train-iters $((last + 1)) --load keep >log 2>&1 ||
        note "$1: the checkpoint: $(tail -n 1 log)"
    rm -rf keep out err
}
mark=200000
for n in 2 4; do
    mark=$((mark + 1))
    rm -f out err
    "$MEGALITH" launch --nproc_per_node $n "${base[@]}" --train-iters $mark --save keep >out 2>err </dev/null &
    run=$!
    begun
    kill -TERM $run
    saved "SIGTERM to launch of $n ranks" TERM
    mark=$((mark + 1))
    rm -f out err
    "$MEGALITH" launch --nproc_per_node $n "${base[@]}" --train-iters $mark --save keep --tensor-model-parallel-size 2 \
        >out 2>err </dev/null &
    run=$!
    begun
    kill -TERM "$(a_rank $n)"
    saved "SIGTERM to one of $n ranks"
done

# launch prints the name of the signal itself and passes it on: Ctrl-C, Slurm's warning before the end, a closed
# terminal.
for row in 'INT:interrupted by Ctrl-C .SIGINT.' USR1:'received SIGUSR1' HUP:'received SIGHUP'; do
    mark=$((mark + 1))
    rm -f out err
    "$MEGALITH" launch --nproc_per_node 2 "${base[@]}" --train-iters $mark --save keep >out 2>err </dev/null &
    run=$!
    begun
    kill -${row%%:*} $run
    until_true grep -qE "^megalith launch: ${row#*:}" err
    grep -qE "^megalith launch: ${row#*:}: the ranks are asked to stop" err ||
        note "SIG${row%%:*} to launch is not answered"
    saved "SIG${row%%:*} to launch" "${row%%:*}"
done

# It has one name everywhere, also where it was sent to the MPI launcher, with or without megalith launch.
for row in USR1:engine USR2:engine USR2:mpirun; do
    mark=$((mark + 1))
    rm -rf keep out err
    signal=${row%:*}
    # MPICH's launcher ends at once on SIGUSR2, which it does not know.
    [ $mpi_kind != mpich ] || [ "$signal" != USR2 ] || continue
    start=("$MEGALITH" launch --nproc_per_node 2)
    [ ${row#*:} = engine ] || start=(env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "$mpirun"
        --oversubscribe -n 2 "$MEGALITH")
    "${start[@]}" "${base[@]}" --train-iters $mark --save keep >out 2>err </dev/null &
    run=$!
    begun
    to=$run
    [ ${row#*:} = engine ] && to=$(pgrep -P "$run" | head -n 1)
    kill -"$signal" "$to"
    ends "SIG$signal to ${row#*:}"
    named "SIG$signal to ${row#*:}" "$signal"
    is_gone "SIG$signal to ${row#*:}"
done
rm -rf keep

# Open MPI's launcher ends its ranks with SIGTERM whatever ended the launcher: they say who sent it, and name no other.
for row in INT:engine INT:mpirun HUP:mpirun TERM:mpirun; do
    [ $mpi_kind = openmpi ] || break
    mark=$((mark + 1))
    rm -rf keep out err
    start=("$MEGALITH" launch --nproc_per_node 2)
    [ ${row#*:} = engine ] || start=(env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "$mpirun"
        --oversubscribe -n 2 "$MEGALITH")
    set -m # without job control mpirun would ignore SIGINT
    "${start[@]}" "${base[@]}" --train-iters $mark --save keep >out 2>err </dev/null &
    run=$!
    set +m
    begun
    to=$run
    [ ${row#*:} = engine ] && to=$(pgrep -P "$run" | head -n 1)
    kill -"${row%:*}" "$to"
    ends "SIG$row"
    grep -q 'megalith pretrain_gpt: received SIGTERM from the MPI launcher: ' err || note "SIG$row: $(cat err)"
    grep -vhE 'from the MPI launcher[.:]' out err | grep -E '(received|receiving|interrupted by) .*SIG' &&
        note "SIG$row has another name there"
    is_gone "SIG$row"
done
rm -rf keep

# A signal to one rank during an evaluation: all ranks end it after the current instruction, and save.
for layout in tensor:TERM pipeline:HUP; do
    mark=$((mark + 1))
    rm -f out err
    "$MEGALITH" launch --nproc_per_node 2 "${base[@]}" --train-iters 20 --exit-interval $mark --save keep --split \
        80,20,0 \
        --eval-interval 3 --eval-iters 20000 --${layout%:*}-model-parallel-size 2 >out 2>err </dev/null &
    run=$!
    begun
    kill -${layout#*:} "$(a_rank 2)"
    began=$SECONDS
    saved "SIG${layout#*:} to one ${layout%:*} rank in an evaluation"
    [ $((SECONDS - began)) -le "$(at_most 20)" ] ||
        note "SIG${layout#*:} in an evaluation: the run ended $((SECONDS - began)) s later"
done

# Nobody reads the output of launch: it still passes on a signal, and the ranks save.
mkfifo pipe
exec 4<>pipe
mark=$((mark + 1))
"$MEGALITH" launch --nproc_per_node 2 "${base[@]}" --train-iters $mark --save keep --metrics-file metrics >pipe 2>err \
    </dev/null &
run=$!
rows=-1
for _ in $(seq 1 300); do # more than a pipe holds: launch waits for its reader, and the ranks for launch, or for nobody
    now=$(cat metrics 2>/dev/null | wc -l)
    [ "$now" -gt 400 ] && break
    [ "$now" -gt 20 ] && [ "$now" = $rows ] && break
    rows=$now
    sleep 0.2
done
kill -TERM $run
ends "launch with a blocked output"
[ $status -eq 0 ] || note "launch with a blocked output: exit status $status"
[ -s keep/latest_checkpointed_iteration.txt ] || note "launch with a blocked output: nothing is saved"
exec 4<&-
rm -rf keep out err

# A data file is truncated while ranks read it: one error names the file, and the completed steps are saved.
mark=$((mark + 1))
cp d_text_document.bin cut.bin && cp d_text_document.idx cut.idx
rm -f out err
"$MEGALITH" launch --nproc_per_node 2 "${base[@]}" --data-path cut --train-iters $mark --save keep >out 2>err \
    </dev/null &
run=$!
begun
truncate -s 64 cut.idx
ends "an index that is cut"
[ $status -eq 1 ] || note "an index that is cut: exit status $status"
[ "$(grep -c 'error: .*cut.idx: the file was truncated while it was being read' err)" = 1 ] ||
    note "an index that is cut: $(cat err)"
[ "$(cat keep/latest_checkpointed_iteration.txt 2>&1)" = \
    "$(grep -oE 'iteration +[0-9]+/' out | tail -n 1 | tr -dc 0-9)" ] ||
    note "an index that is cut: the last whole step is not saved"
rm -rf keep out err cut.*

# During set-up there is nothing to save: all ranks end, no rank is reported as dead or failed, and the exit status is
# that of the signal, whichever rank received it.
for signal in TERM:143 USR1:138; do
    mark=$((mark + 1))
    rm -f out err
    "$MEGALITH" launch --nproc_per_node 2 "${base[@]}" --train-iters 20 --exit-interval $mark --save keep --split \
        80,20,0 \
        --eval-interval 3 --eval-iters 200000 --data-cache-path index.$mark >out 2>err </dev/null &
    run=$!
    until_true grep -qs '> building train, validation' out
    kill -${signal%:*} "$(a_rank 2)"
    ends "SIG${signal%:*} to a rank that builds the index"
    [ $status -eq ${signal#*:} ] || note "SIG${signal%:*} to a rank that builds the index: exit status $status"
    grep -q 'no step was made, and nothing is saved' err ||
        note "SIG${signal%:*} to a rank that builds the index: what ended the run is not said"
    grep -qE 'error|died|ended by signal' err &&
        note "SIG${signal%:*} to a rank that builds the index is told as a failure: $(cat err)"
    is_gone "SIG${signal%:*} to a rank that builds the index"
    rm -rf keep out err
done

# The MPI launcher alone: mpirun kills its ranks on SIGTERM, and passes on SIGUSR1.
mark=$((mark + 1))
rm -f out err
ranks 2 "$MEGALITH" "${base[@]}" --train-iters $mark --save keep >out 2>err </dev/null &
run=$!
begun
kill -USR1 "$(pgrep -f "^[^ ]*mpi[^ ]* .*train-iters $mark" | tail -n 1)"
saved "SIGUSR1 to mpirun" USR1

# Before the ranks are ready: a signal to launch alone, to the MPI launcher, and to ranks of which only some handle
# signals yet. (A shell that has forked but not yet started the program would run the trap that removes this folder.)
launched() { [ "$(readlink "/proc/$run/exe")" = "$MEGALITH" ]; }
an_engine() { pgrep -P "$run" >/dev/null; }
a_rank_is() { [ -n "$(a_rank "$1")" ]; }
for signal in TERM:143 INT:130; do
    for when in launched an_engine 'a_rank_is 1' 'a_rank_is 4'; do
        mark=$((mark + 1))
        # Without job control the shell would make the command ignore SIGINT.
        set -m
        rm -f out err
        "$MEGALITH" launch --nproc_per_node 4 "${base[@]}" --train-iters $mark --save keep >out 2>err </dev/null &
        run=$!
        set +m
        # shellcheck disable=SC2086
        until_true $when || fail "$when: the run does not come to it"
        kill -${signal%:*} $run
        ends "SIG${signal%:*} at $when"
        # A run that has already finished a step saves.
        [ $status -eq ${signal#*:} ] || { [ $status -eq 0 ] && [ -s keep/latest_checkpointed_iteration.txt ]; } ||
            note "SIG${signal%:*} at $when: exit status $status, nothing saved"
        is_gone "SIG${signal%:*} at $when"
        rm -rf keep out err
    done
done

# After a stall that has passed, a signal is promised again what happens: the run saves and leaves.
mark=$((mark + 1))
rm -f out err
"$MEGALITH" launch --nproc_per_node 2 "${base[@]}" --train-iters $mark --save keep >out 2>err </dev/null &
run=$!
begun
kill -STOP "$(a_rank 2)"
until_true grep -q 'warning: no progress: ' err || fail "a stall is not reported"
at=$(grep -c '' out)
kill -CONT "$(a_rank 2)"
goes_on() { [ "$(grep -c '' out)" -gt $((at + 2)) ]; }
until_true goes_on || fail "the run does not go on after a stall"
kill -TERM $run
until_true grep -q 'megalith pretrain_gpt: received SIGTERM: ' err
grep -q 'received SIGTERM: the run saves and leaves after the step under way' err ||
    note "after a stall that has passed: $(cat err)"
saved "SIGTERM after a stall that has passed"

# One rank is stopped, so the ranks cannot agree to end.
mark=$((mark + 1))
rm -f out err
"$MEGALITH" launch --nproc_per_node 4 "${base[@]}" --train-iters $mark --save keep >out 2>err </dev/null &
run=$!
begun
kill -STOP "$(a_rank 3)"
kill -TERM $run
until_true grep -q '^megalith launch: received SIGTERM' err || fail "a first signal is not answered"
kill -0 $run 2>/dev/null || note "a first signal ends a run that cannot save"
kill -TERM $run
began=$SECONDS
ends "two signals"
[ $status -eq 143 ] || note "two signals: exit status $status"
[ $((SECONDS - began)) -le "$(at_most 20)" ] || note "two signals: ended $((SECONDS - began)) s later"
is_gone "two signals"
tail -n 1 err | grep -q 'ended by a signal' || note "two signals: the last line"

finish
