#!/usr/bin/env bash
# Four ranks, one of which never arrives: it is killed, stopped, fails alone, waits for a message that nobody sends, or
# makes another call than the others. The run always ends within seconds after its limit, and reports which rank and
# where.
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
limit=4
fail() {
    echo "FAILED: $1"
    cat ./*.log
    exit 1
}
# start HOW [LIMIT]: starts the program in the background; $launcher is the process id of its launcher
start() {
    rm -f run.log told.*
    ranks 4 "$MEGA_BUILD/tests/ranks_stall" "$1" "${2:-$limit}" >run.log 2>&1 </dev/null &
    launcher=$!
}
# ended SECONDS: the run ended in time, and with an error
ended() {
    local began=$SECONDS
    while kill -0 "$launcher" 2>/dev/null; do
        [ $((SECONDS - began)) -le "$(at_most "$1")" ] || {
            kill -9 "$launcher"
            fail "still there after $1 s"
        }
        sleep 0.2
    done
    wait "$launcher" && fail "status 0"
    [ "${2:-}" = unheard ] || [ "$(grep -c '^ended: ' run.log)" -eq 1 ] || fail "the end is not told once"
}
say() { grep -Eq -- "$1" run.log || fail "no word of: $1"; }

for signal in KILL STOP; do
    start loop
    for _ in $(seq 1 300); do
        grep -qs running run.log && break
        sleep 0.1
    done
    victim=$(pgrep -f "^$MEGA_BUILD/tests/ranks_stall loop" | sed -n 3p)
    kill "-$signal" "$victim" || fail "no rank to signal"
    if [ "$signal" = KILL ] && [ "$mpi_kind" = mpich ]; then
        ended 10 unheard # its mpiexec sees the death first, mostly, and ends the others
        say '^ended: .*is dead|Killed \(signal 9\)'
    elif [ "$signal" = KILL ]; then
        # on a busy machine mpirun may see the death first, and end the others; below, it does not react
        ended 10 unheard
        if grep -q '^ended: ' run.log; then
            [ "$(grep -c '^ended: ' run.log)" -eq 1 ] || fail "the end is told more than once"
            say \
                "^ended: rank [0-9] \(process $victim\) is dead .* at step [0-9]+, backward of micro-batch 3, (in|after) all_reduce #[0-9]+ \(gradients\) of group dp, h.7.attn"
        else
            say 'exited on signal 9 \(Killed\)'
        fi
    else
        ended $((limit + 10))
        for first in told ended; do
            say \
                "^$first: rank [0-9] \(process [0-9]+\) has been waiting for [0-9]+ s, at step [0-9]+, backward of micro-batch 3, in all_reduce #[0-9]+ \(gradients\) of group dp, h.7.attn, for rank"
        done
        say "^  rank [0-9] \(process $victim\) has been stopped by a signal .* at step [0-9]+, backward"
        [ "$(grep -c '^told: ' run.log)" -eq 1 ] || fail "told more than once"
    fi
    echo "ok: $signal"
done
start pass 8 # limit: rank 3 waits with the others for those that are told after 4 s
for _ in $(seq 1 300); do kill -0 "$launcher" 2>/dev/null && sleep 0.1; done
wait "$launcher" || fail "a stall that passes ends the run"
[ "$(grep -c '^told: ' run.log)" -eq 1 ] || fail "told more than once"
for r in 0 1 2; do [ "$(grep -c "^over: rank $r" run.log)" -eq 1 ] ||
    fail "rank $r does not hear that its wait is over"; done
echo "ok: a stall that passes"
# Ranks 0, 1 and ranks 2, 3 behave as two hosts, which exchange the records of their ranks over TCP.
sockets_of() { find "/proc/$1/fd" -lname 'socket:*' -printf '%l\n' 2>/dev/null | tr -dc '0-9\n'; }
# Ports on which a process listens; ranks inherit one from MPICH's launcher.
ports() {
    local sockets
    sockets=$(sockets_of "$1" | grep -vxFf <(for pid in $(pgrep -f hydra); do sockets_of "$pid"; done; echo none) |
        tr '\n' ' ')
    awk -v sockets=" $sockets" '$4 == "0A" && index(sockets, " " $10 " ") { sub(".*:", "", $2); print "0x" $2 }' \
        /proc/"$1"/net/tcp /proc/"$1"/net/tcp6
}
start_hosts() {
    export MEGA_TEST_HOSTS=2
    start "$1"
    unset MEGA_TEST_HOSTS
    for _ in $(seq 1 300); do
        grep -qs running run.log && break
        sleep 0.1
    done
    mapfile -t rank < <(pgrep -f "^$MEGA_BUILD/tests/ranks_stall $1")
    [ ${#rank[@]} -eq 4 ] || fail "${#rank[@]} ranks, not 4"
}
host=$(hostname)
start_hosts loop
for pid in "${rank[@]}"; do # strangers; under MPICH a rank has a port of its launcher open too, which they would end
    [ "$mpi_kind" = openmpi ] || break
    [ -n "$(ports "$pid")" ] || fail "rank $pid listens nowhere"
    for port in $(ports "$pid"); do
        for bytes in 10 1000 1000000; do (head -c $bytes /dev/urandom >"/dev/tcp/127.0.0.1/$((port))") 2>/dev/null; done
    done
done
kill -STOP "${rank[2]}"
ended $((limit + 10))
for first in told ended; do
    say \
        "^$first: rank [01] \(process [0-9]+\) has been waiting for [0-9]+ s, at step [0-9]+, backward of micro-batch 3, in all_reduce #[0-9]+ \(gradients\) of group dp, h.7.attn, for rank"
done
say \
    "^  rank 2 \(process ${rank[2]} on host $host/2\) has been stopped by a signal .* for [0-9]+ s, at step [0-9]+, backward of micro-batch 3, (in|after) all_reduce #[0-9]+ \(gradients\) of group dp"
[ "$(grep -c '^told: ' run.log)" -eq 1 ] || fail "told more than once"
echo "ok: STOP on another host"
export MEGA_HOST_TIMEOUT=2 # its system is there: it is not taken for lost
start_hosts loop
unset MEGA_HOST_TIMEOUT
kill -STOP "${rank[2]}" "${rank[3]}"
ended $((limit + 10))
say "^ended: rank [01] .* has been waiting for [0-9]+ s"
say "host $host/2 \(ranks 2-3\) is up, but none of its ranks has answered for [0-9]+ s"
echo "ok: STOP of another host"
# The other rank of that host does something else, and the launcher does not react.
export OMPI_MCA_orte_enable_recovery=1 limit=60
start_hosts busy
unset OMPI_MCA_orte_enable_recovery
limit=4
kill -KILL "${rank[2]}"
for _ in $(seq 1 300); do grep -qs '^ended: ' run.log && break || sleep 0.1; done
kill -KILL "${rank[@]}" "$launcher" 2>/dev/null
wait "$launcher" 2>/dev/null
# Launchers other than Open MPI's may end the ranks before they print anything.
[ "$mpi_kind" = mpich ] || say \
    "^ended: rank 2 \(process ${rank[2]} on host $host/2\) is dead .* at step [0-9]+, backward of micro-batch 3, (in|after) all_reduce #[0-9]+"
echo "ok: KILL on another host"
start cycle
ended $((limit + 10))
say "in receive #1 \(activations\) of group dp, for rank"
say "all of these wait for each other: their calls do not match"
echo "ok: cycle"
start fail
ended 15
say "^ended: planted"
echo "ok: fail"
start setup
ended 15
say "^ended: planted"
echo "ok: a rank that fails where the others are in another collective"
if [ "$mpi_kind" = openmpi ]; then
    export OMPI_MCA_orte_enable_recovery=1 limit=60
    start leave
    unset OMPI_MCA_orte_enable_recovery
    limit=4 began=$SECONDS
    for _ in $(seq 1 300); do # $began: at most when it was printed, however late it is seen
        before=$SECONDS
        grep -qs '^ended: planted' run.log && break
        began=$before
        sleep 0.1
    done
    for _ in $(seq 1 300); do grep -qs '^ended: rank' run.log && break || sleep 0.1; done
    [ $((SECONDS - began)) -ge 2 ] || fail "the failed rank had no time to end the others"
    kill -KILL "$launcher" 2>/dev/null
    pkill -KILL -f "^$MEGA_BUILD/tests/ranks_stall leave"
    wait "$launcher" 2>/dev/null
    say '^ended: rank 1 \(process [0-9]+\) has failed and ended; its own message says why'
    grep -q 'is dead' run.log && fail "a rank that failed by itself is called dead"
    echo "ok: a rank that fails alone is not called dead"
fi
start program
ended 15
say "group dp: its ranks have different planted programs, from collective 2 on:"
say "rank 0 of the group: all_reduce over dp \(activation\) of 32 f32 in "
say "rank 1 of the group: all_reduce over dp \(activation\) of 48 f32 in "
[ "$(grep -c 'of the group: ' run.log)" -eq 2 ] || fail "ranks that do not differ are told"
for how in order group; do
    start $how
    ended 15
    say "group tp: its ranks have different planted programs, from collective 1 on:"
    say "rank 0 of the group: all_reduce over tp \(activation\) of 32 f32 in "
    say "rank 1 of the group: all_reduce over dp \(activation\) of 32 f32 in "
done
start meet
ended 15
say "group world: its ranks would wait for each other for ever:"
say "rank 0 waits for 4 ranks to meet in sum of losses, after 0 of its 2 starts and waits"
say "rank 1 waits for 4 ranks to meet in sum of norms, after 0 of its 2 starts and waits"
start buckets
ended 15
say "group world: its ranks have different options in mega_engine_create:"
say "rank 0 of the group: bucket_elements 5000"
say "rank 1 of the group: bucket_elements 9000"
[ "$(grep -c 'of the group: ' run.log)" -eq 2 ] || fail "ranks that do not differ are told"
start schedule
ended 15
say "group world: its ranks have different options in mega_engine_create:"
say "rank 0 of the group: batch.global_batch 8"
say "rank 1 of the group: batch.global_batch 12"
# The programs of a curriculum's shorter samples are compared when they are made, before a rank waits in them.
start length
ended 15
say "group tp: its ranks have different train programs, from collective 4 on:"
say 'rank 1 of the group: all_reduce over tp \(activation\) of 48 f64 in "net.h.1.down", forward'
! grep -q 'no progress' run.log || fail "shorter programs that differ are told once ranks wait"
echo "ok: programs that differ"
# Different calls are always detected in shared memory; over MPI, if ranks exchange descriptions of calls before data
# moves. Without a difference nothing changes.
for how in "MEGA_COMM=shm" "MEGA_COMM=mpi MEGA_CHECK=2"; do
    # shellcheck disable=SC2163,SC2086  # variables and their values
    export $how
    start count
    ended 15
    say "^ended: .*group dp: ranks [0-9] and [0-9] make different calls"
    say "rank 0 calls all_reduce #2 \(gradients\) of 50000 f32"
    say "rank 1 calls all_reduce #2 \(gradients\) of 49990 f32"
    start kind
    ended 15
    say "rank 0 calls all_reduce #2 \(gradients\) of 100 f32"
    say "rank 1 calls all_gather #2 \(weights\) of 100 f32"
    start number
    ended 15
    say "rank 0 calls barrier #2 \(end of the step\)"
    say "rank 1 calls all_reduce #2 \(one more\) of 100 f32"
    unset MEGA_COMM MEGA_CHECK
    echo "ok: calls that differ, $how"
done
