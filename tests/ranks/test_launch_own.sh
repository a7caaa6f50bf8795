#!/usr/bin/env bash
# The user's own programs under megalith launch and its other names. A program that is linked to megalith trains as
# under mpirun; a killed and a stopped rank, signals, restarts and logs work as for commands. Any other program gets its
# rank from the environment. Programs that cannot be started are refused.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
. "$MEGA_SOURCE/tests/kit/ranks.sh"
unset RANK WORLD_SIZE OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OMPI_MCA_btl \
    OMPI_MCA_btl_vader_single_copy_mechanism UCX_TLS OMP_NUM_THREADS
ln -s "$MEGA_BUILD/tests/ranks_own" own
launch() { "$MEGALITH" launch "$@" </dev/null; }
losses() { grep -oE 'step [0-9]+: loss [0-9.e+-]+' "$1"; }
waits_for() { # PATTERN FILE, which was removed before its writer started: a loaded machine may be late to empty it
    for _ in $(seq 1 300); do
        grep -qs -- "$1" "$2" && return
        sleep 0.1
    done
    fail "no \"$1\" in $2: $(tail -n 3 out err)"
}
rank_of() { pgrep -f "^\./own $1" | tail -n 1; } # of the program whose first argument this is; the last one started
gone() { # WHOSE FIRST ARGUMENT
    for _ in $(seq 1 300); do pgrep -f "^\./own $1" >/dev/null && sleep 0.1; done
    pgrep -f "^\./own $1" >/dev/null && note "a rank lives on"
}

# ---- it trains, under every spelling ----
launch ./own 4 - >one 2>err || fail "one rank: $(cat err)"
[ "$(losses one | wc -l)" -eq 4 ] || note "four steps on one rank: $(cat one)"
OMPI_MCA_btl=self,vader UCX_TLS=posix,sysv,self ranks 2 ./own 4 - >plain 2>&1 </dev/null || note "mpirun: $(cat plain)"
spelling() { # WORDS…: the same losses as under mpirun, from two ranks
    "$MEGALITH" "$@" >out 2>err </dev/null || note "$*: $(tail -n 3 err)"
    [ "$(losses out)" = "$(losses plain)" ] || note "$*: other losses: $(cat out)"
}
spelling launch --nproc_per_node 2 ./own 4 -
spelling torchrun --standalone --nproc-per-node=2 ./own 4 -
spelling deepspeed --num_gpus=2 ./own 4 - --deepspeed
spelling accelerate launch --num_processes 2 ./own 4 -
spelling -m torch.distributed.launch --nproc_per_node=2 --use_env "$PWD/own" 4 -
PATH=$PWD:$PATH spelling launch --nproc_per_node 2 own 4 -
grep -v '^\[0\] ' out && note "lines without their rank"
"$MEGALITH" accelerate launch --num_processes 2 --zero_stage 3 --mixed_precision bf16 ./own 4 - --bf16 >out 2>err \
    </dev/null || note "options: $(cat err)"
"$MEGALITH" accelerate launch --num_processes 2 --zero_stage 4 ./own 4 - >out 2>err </dev/null &&
    note "the options of launch do not reach the program"
"$MEGALITH" accelerate launch --num_processes 2 --zero_stage 4 ./own 4 - --zero-stage 1 >out 2>err </dev/null ||
    note "the program's options do not win: $(cat err)"
launch --nproc_per_node 2 ./own 4 - --tensor-model-parallel-size 2 >out 2>err || note "tensor parallel: $(cat err)"
echo '{"zero_optimization": {"stag": 1}}' >ds.json
launch --nproc_per_node 2 ./own 4 - --deepspeed_config ds.json >out 2>err && note "a JSON that nobody reads"
grep -q '"zero_optimization.stag" (ds.json, line 1) is not a key' err || note "the JSON: $(cat err)"
launch --nproc_per_node 2 ./own 4 - --local_rank 0 >out 2>err && note "two ranks that are both the first"
grep -q -- '--local_rank 0: by its launcher this process is rank 1 of the 2 on its host' err ||
    note "the number: $(cat err)"

# ---- logs ----
launch --nproc_per_node 2 --log_dir logs ./own 4 - >out 2>err || note "with logs"
[ "$(losses logs/rank_0.log)" = "$(losses plain)" ] && [ -f logs/rank_1.log ] || note "the logs of the ranks"

# ---- failures ----
rm -f out err
launch --nproc_per_node 2 ./own 1000001 - >out 2>err &
launcher=$!
waits_for 'step 3:' out
kill -9 "$(rank_of 1000001)"
wait $launcher
status=$?
[ $status -eq 137 ] || [ $status -eq 1 ] || note "exit status $status of a killed rank"
tail -n 1 err | grep -qE '^megalith launch: error: .*(ended by signal 9|rank [01] )' ||
    note "the last line is not the killed rank: $(tail -n 1 err)"
gone 1000001

# ---- a stall ----
rm -f out err
launch --nproc_per_node 2 ./own 1000002 - --distributed-timeout-minutes 0.2 >out 2>err &
launcher=$!
waits_for 'step 3:' out
victim=$(rank_of 1000002)
kill -STOP "$victim"
began=$(date +%s)
wait $launcher && note "exit status 0 with a stopped rank"
[ $(($(date +%s) - began)) -le "$(at_most 40)" ] || note "a stopped rank was waited for: $(($(date +%s) - began)) s"
grep -q 'own: rank [01] (process [0-9]*) has been waiting for' err || note "the stall is not reported: $(cat err)"
grep -q "rank [01] (process $victim) has been stopped by a signal" err || note "who was stopped: $(cat err)"
gone 1000002

# ---- signals ----
# A background job of a script ignores SIGINT otherwise, and so does launch then.
rm -f out err
env --default-signal=INT "$MEGALITH" launch --nproc_per_node 2 ./own 1000003 - >out 2>err </dev/null &
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
gone 1000003
cat >saves.sh <<'TEXT'
#!/bin/sh
trap 'echo "rank $RANK saves"; exit 0' TERM
echo "rank $RANK runs"
while :; do sleep 0.1; done
TEXT
chmod +x saves.sh
for words in ./saves.sh 'env A=1 ./saves.sh'; do # env becomes the script
    rm -f out err
    # shellcheck disable=SC2086 # a list of words
    "$MEGALITH" launch --nproc_per_node 2 $words >out 2>err </dev/null &
    launcher=$!
    waits_for 'rank 0 runs' out
    waits_for 'rank 1 runs' out
    kill -TERM $launcher
    wait $launcher || note "$words at SIGTERM: exit status $?"
    [ "$(grep -c 'saves$' out)" -eq 2 ] || note "SIGTERM does not reach both ranks of $words: $(cat out err)"
done

# ---- restarts ----
launch --nproc_per_node 2 ./own 200 straight >straight_out 2>err || note "without a death"
rm -f out err
launch --nproc_per_node 2 --max_restarts 1 ./own 200 keep --num-threads 1 >out 2>err &
launcher=$!
waits_for 'step 41:' out
kill -9 "$(rank_of '200 keep')"
wait $launcher || note "a restart goes on: $(tail -n 3 err)"
grep -q 'restart 1 of 1, 2 ranks, of the same command' err || note "no word of the restart: $(cat err)"
grep -qE 'begins at ([2-9]|1[0-9])0' out || note "it begins anew: $(grep begins out)"
[ "$(losses out | tail -n 3)" = "$(losses straight_out | tail -n 3)" ] || note "other losses than without a death"
printf \
    '#!/bin/sh\necho "try $TORCHELASTIC_RESTART_COUNT of $TORCHELASTIC_MAX_RESTARTS"\n[ $RANK = 0 ] || exit 3\nsleep 5\n' >fails.sh
chmod +x fails.sh
launch --nproc_per_node 2 --max-restarts 1 ./fails.sh >out 2>err
[ $? -eq 3 ] || note "the exit status of the program"
grep -q 'try 1 of 1' out || note "the count of restarts: $(cat out)"
# Open MPI on a busy machine does not always say which rank it was.
[ "$mpi_kind" = mpich ] || tail -n 1 err | grep -qE \
    '^megalith launch: error: (rank 1 ended with exit status 3|a rank ended with an error); exit status 3$' ||
    note "the rank that failed: $(tail -n 1 err)"

# ---- programs that know nothing of megalith ----
launch --nproc_per_node 2 /bin/true >out 2>err || note "/bin/true: $(cat err)"
[ ! -s err ] && [ ! -s out ] || note "/bin/true says: $(cat out err)"
printf '#!/bin/sh\necho "$RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR $MASTER_PORT $*"\n' >who.sh
chmod +x who.sh
WORLD_SIZE=7 RANK=5 launch --nproc_per_node 2 --master_port 1234 ./who.sh 'a b' --c >out 2>err ||
    note "a script: $(cat err)"
[ "$(sort out)" = '[0] 0 2 0 2 127.0.0.1 1234 a b --c
[1] 1 2 1 2 127.0.0.1 1234 a b --c' ] || note "the environment of ranks: $(cat out)"
[ "$(launch ./who.sh x)" = '0 1 0 1 127.0.0.1 29500 x' ] || note "the environment of one rank"
[ "$(echo hi | "$MEGALITH" launch --nproc_per_node 2 cat)" = '[0] hi' ] || note "standard input of the first rank"
if command -v python3 >/dev/null; then
    echo 'import os, sys; print("python", os.environ["RANK"], sys.argv[1:])' >script.py
    for words in 'python3 script.py' 'python3 -u script.py' script.py ./script.py; do
        # shellcheck disable=SC2086 # a list of words
        launch --nproc_per_node 2 $words z >out 2>err || note "$words: $(cat err)"
        [ "$(sort out)" = "[0] python 0 ['z']
[1] python 1 ['z']" ] || note "$words: $(cat out)"
    done
    refuses 'an option for a script of Python' '--mixed-precision would become an argument of script.py' launch \
        --mixed_precision bf16 script.py
fi

# ---- what cannot be started ----
echo x >plain.txt
mkdir folder
refuses 'no such file' './gone: No such file or directory' launch ./gone
refuses 'no permission' './plain.txt: Permission denied; make it executable: chmod +x ./plain.txt' launch ./plain.txt
refuses 'a folder' './folder: is a folder' launch ./folder
refuses 'a program of this folder' '"who.sh" is not a command and not on PATH; the program of this folder is ./who.sh' \
    launch who.sh
refuses 'no such name' '"whatisit" is not a command, and no program on PATH has this name' launch whatisit
refuses 'no such script' '"gone.py" is not a command, and no such file exists' launch gone.py
refuses 'a script of others' '"train.py" is not a command; pretrain_gpt does its work here' launch train.py
refuses 'a module' '--module: "mine" is not a command; start a module of your own as python3 -m mine' launch --module \
    mine
chmod +x plain.txt
launch --nproc_per_node 2 --max-restarts 1 ./plain.txt >out 2>err
[ $? -eq 126 ] || note "exit status of what is no program"
tail -n 1 err | grep -q './plain.txt cannot be started on .*: Exec format error; a script needs a first line' ||
    note "no program: $(cat err)"
grep -q 'restart 1' err && note "what is no program is tried again"

# ---- names of commands ----
printf '#!/bin/sh\necho mine\n' >tasks
chmod +x tasks
[ "$(launch ./tasks)" = mine ] || note "a path is not a command"
PATH=$PWD:$PATH launch tasks >out 2>&1
grep -q '^mine' out && note "a command's name is a program"

finish
