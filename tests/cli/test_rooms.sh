#!/usr/bin/env bash
# Rooms depend only on lower rooms: with the compile flags of a room, the headers of rooms on its own floor and
# above are not found, and those of the rooms below are.
set -u
: "${MEGA_SOURCE:?run by ctest}" "${MEGA_BUILD:?run by ctest}"
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
failures=0
checks=0

# As the room's guide says in its first line: "# graph/: … (floor 4)".
floor() {
    local said
    said=$(sed -n '1s/.*(floor \([0-9]*\)).*/\1/p' "$MEGA_SOURCE/src/$1/README.md" 2>/dev/null)
    echo "${said:-0}"
}

# The compile command of any file of the room, without its input and outputs.
flags_of() {
    target=mega_$1
    grep -F '"command": ' "$MEGA_BUILD/compile_commands.json" | grep -F "/$target.dir/" | head -n 1 |
        sed -e 's/^ *"command": "//' -e 's/",*$//' -e 's/\\"/"/g' -e 's/ -o [^ ]*//' -e 's/ -c .*//' \
            -e 's/ -M[DTFQ]* [^ ]*\.[od]\b//g' -e 's/ -MD\b//' -e 's/^[^ ]*ccache //'
}

# 0 = the header is found inside the source tree. A copy installed on this machine does not count.
sees() {
    echo "#include \"megalith/$2\"" >"$temp/probe.c"
    eval "$1 -H -fsyntax-only '$temp/probe.c'" >"$temp/out" 2>&1 || true
    grep -qE "^\.+ $MEGA_SOURCE/" "$temp/out"
}

rooms=$(cd "$MEGA_SOURCE/src" && ls -d */ | tr -d / | grep -vx foreign) # foreign/ holds tables of text
for room in $rooms; do
    if [ "$(floor "$room")" = 0 ]; then
        echo "room $room: the first line of its README.md names no floor"
        failures=$((failures + 1))
        continue
    fi
    flags=$(flags_of "$room")
    if [ -z "$flags" ]; then
        echo "room $room: no compile command found"
        failures=$((failures + 1))
        continue
    fi
    for other in $rooms; do
        header=$(cd "$MEGA_SOURCE/src/$other" && ls include/megalith/*.h 2>/dev/null | head -n 1)
        { [ -n "$header" ] && [ "$other" != "$room" ]; } || continue
        header=$(basename "$header")
        checks=$((checks + 1))
        if [ "$(floor "$other")" -ge "$(floor "$room")" ]; then
            if sees "$flags" "$header"; then
                echo "$room (floor $(floor "$room")) can include megalith/$header of $other (floor $(floor "$other"))"
                failures=$((failures + 1))
            fi
        fi
    done
    # Checks that the probe itself can succeed.
    if [ "$room" != base ] && ! sees "$flags" status.h; then
        echo "$room cannot include megalith/status.h of base:"
        head -n 5 "$temp/out"
        failures=$((failures + 1))
    fi
done

# Of the rooms on the floor of model/ and above, only the rows of tasks name a model; all other files work with any list
# of layers.
named=$(cd "$MEGA_SOURCE/src" && grep -rlE '"megalith/transformer\.h"|\bmega_transformer\b' --include='*.[ch]' engine \
    train infer launch cli |
    grep -v -e '/tests/' -e '^train/tasks/task_')
if [ -n "$named" ]; then
    echo "a model is named outside model/ and the rows of tasks: $named"
    failures=$((failures + 1))
fi

# Only graph/, params/ and comm/ may ask whether an axis has one rank, and for the ZeRO stage; these rooms may divide by
# its size, but must not decide by it.
asks=$(cd "$MEGA_SOURCE/src" && grep -nE 'size (>|<=) 1\b|size [=!]= 1\b|size (<|>=) 2\b|zero_stage' -r \
    --include='*.[ch]' layers model optim ckpt data |
    grep -v '/tests/')
if [ -n "$asks" ]; then
    echo "what depends on the number of ranks belongs in graph/ or params/: $asks"
    failures=$((failures + 1))
fi

# make install puts the headers of all rooms into one folder, so no name may occur twice.
twice=$(cd "$MEGA_SOURCE/src" && ls */include/megalith/*.h | sed 's|.*/||' | sort | uniq -d)
if [ -n "$twice" ]; then
    echo "two rooms have a public header of one name: $twice"
    failures=$((failures + 1))
fi
[ "$checks" -gt 50 ] || { echo "only $checks pairs of rooms were looked at"; failures=$((failures + 1)); }
echo "$checks pairs of rooms, $failures wrong"
[ "$failures" -eq 0 ]
