# shellcheck shell=bash
# Rounds of kill -9 on one output, half of them with a second process that writes there too. Source kit.sh before this
# file. A test sets
#
#   make_one N    replaces itself (exec) by the command that writes variant N (0, 1 or 2) of the output
#   look          sets $found to the variant that exists, or to "none" if the command guarantees no more; otherwise it
#                 fails
#   lock, subject the lock file of the output, and its name in messages
#   span, was     milliseconds that a run takes, adapted to the machine; the variant that exists at the start
#
# and calls kill_rounds KILLS. No result depends on the speed of the machine.
host=$(uname -n)
milliseconds() { sleep "$(printf '%d.%03d' $(($1 / 1000)) $(($1 % 1000)))"; }

# Returns whether process $1 holds the lock file $2.
has_lock() { grep -qs "^pid     $1\$" "$2"; }

# Stops process $1 while it holds the lock file $2; fails if it ended before.
stop_with_lock() {
    until has_lock "$1" "$2"; do
        kill -0 "$1" 2>/dev/null || return 1
        sleep 0.002
    done
    kill -STOP "$1" 2>/dev/null || return 1
    until grep -qs '^State:.[TZ]' "/proc/$1/status" || [ ! -e "/proc/$1" ]; do sleep 0.001; done
    has_lock "$1" "$2" && [ -e "/proc/$1" ] && return
    kill -CONT "$1" 2>/dev/null
    return 1
}

# end_of PID LOG OTHER: kills PID. It was killed, had finished, or was refused because OTHER was writing; counts which.
end_of() {
    local rc
    kill -9 "$1" 2>/dev/null
    wait "$1" 2>/dev/null
    rc=$?
    case $rc in
    137) killed=$((killed + 1)) ;;
    0) finished=$((finished + 1)) ;;
    1)
        grep -q "error: .*$subject: process $3 on host $host has been writing there since 20" "$2" ||
            fail "after kill $killed: refused for another reason: $(cat "$2")"
        refused=$((refused + 1))
        ;;
    *) fail "after kill $killed: status $rc: $(cat "$2")" ;;
    esac
    return $rc
}

kill_round() {
    local first second='' at percent rc how=$((RANDOM % 4)) before=$was
    (make_one $(((was + 1) % 3))) >log1 2>&1 &
    first=$!
    # half of the moments are anywhere in a run, half around its usual end, when files get their final names
    percent=$((round % 2 == 0 ? RANDOM % 85 : 85 + RANDOM % 25))
    at=$((span * percent / 100))
    if [ $how -eq 0 ] && stop_with_lock $first "$lock"; then
        (make_one $(((was + 2) % 3))) >log2 2>&1 &
        second=$!
        wait $second # a lock whose process is alive is not taken from it
        [ $? -eq 1 ] || fail "after kill $killed: a second process worked beside process $first: $(cat log2)"
        end_of $second log2 $first
        second=
        at=$((at * 3 / 4)) # it has started already
        kill -CONT $first
    elif [ $how -eq 1 ]; then
        milliseconds $((at / 2))
        (make_one $(((was + 2) % 3))) >log2 2>&1 &
        second=$!
        at=$((at - at / 2))
    fi
    milliseconds $at
    end_of $first log1 "${second:-0}"
    rc=$?
    if [ $how -ne 0 ]; then # the machine's speed changes
        if [ $rc -eq 0 ] && [ $percent -lt 100 ] && [ "$span" -gt 20 ]; then span=$((span * 7 / 8)); fi
        if [ $rc -eq 137 ] && [ $percent -gt 100 ]; then span=$((span * 9 / 8 + 1)); fi
    fi
    if [ -n "$second" ]; then
        milliseconds $((RANDOM % (span / 4 + 2)))
        end_of $second log2 $first
    fi
    look
    if [ "$found" = none ]; then
        none=$((none + 1))
    else
        was=$found
        if [ "$was" = "$before" ]; then kept=$((kept + 1)); else replaced=$((replaced + 1)); fi
    fi
}

counts() {
    echo \
        "$subject: $killed kills in $round rounds; the output was $kept times the old one, $replaced times a new one, $none times incomplete;" \
        "$refused processes refused, $finished finished, a run takes $span ms"
}

# Ends with an undisturbed run: afterwards variant 1 exists.
kill_rounds() {
    local kills=$1
    killed=0 kept=0 replaced=0 none=0 refused=0 finished=0 round=0
    while [ "$killed" -lt "$kills" ]; do
        round=$((round + 1))
        kill_round
        [ $((round % 100)) -ne 0 ] || counts
    done
    counts
    # Files of killed runs do not disturb the next run, which removes them.
    (make_one 1) >log 2>&1 || fail "the run after the kills"
    look
    [ "$found" = 1 ] || fail "the run after the kills left another output"
}
