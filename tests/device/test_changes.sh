#!/usr/bin/env bash
# Each mistake of changes.txt is made in a copy of the kernels, one at a time: the kernels of one file are compiled for
# the software device that watches, and device_test_kernels must fail, by the watch or by values. One that nothing
# notices has its reason in the file; a row with a reason that is noticed is stale.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
: "${MEGA_BUILD:?run by ctest}"
device=$MEGA_SOURCE/tests/device kernels=$MEGA_BUILD/tests/device_test_kernels
[ -x "$kernels" ] || skip "the software device was not built"
compiler=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$MEGA_BUILD/CMakeCache.txt")
every=7
[ -z "${MEGA_DEVICE_SEEDS:-}" ] || every=1 # make check-device makes all of them
unset MEGA_DEVICE_SEEDS

# The objects of the library, but for its kernels.
objects=()
for part in device_runner device_watch device_driver_exits; do
    for object in "$MEGA_BUILD/CMakeFiles/$part.dir/tests/device"/*.o; do objects+=("$object"); done
done
[ -e "${objects[0]}" ] || fail "the objects of the software device are not in $MEGA_BUILD"

# Compiles the kernels of a file in the changed copy, as cmake/device.cmake does those of the library.
compile() { # KERNELS
    "$compiler" -std=gnu17 -O1 -g1 -fPIC -shared -w -fno-math-errno -ffp-contract=off -fno-strict-aliasing -fsanitize=thread -c \
        -o "$work/kernels.o" -I"$work/cuda" -I"$device" -I"$MEGA_SOURCE/src/backend/include" -I"$MEGA_SOURCE/src/base/include" \
        -x c "$work/cuda/$1" >"$work/out" 2>&1 &&
        "$compiler" -shared -o "$work/changed.so" "${objects[@]}" "$work/kernels.o" \
            -Wl,--version-script="$device/exports.map" -Wl,-z,defs -pthread -ldl -lm -lrt >"$work/out" 2>&1
}

# Puts one text of a file in the place of another, which must be there once.
change() { # FILE OLD NEW
    local text
    text=$(cat "$1")
    [ "${text/"$2"/}" != "$text" ] || { note "changes.txt: $1 has no text '$2'" && return 1; }
    local -r rest=${text#*"$2"}
    [ "${rest/"$2"/}" = "$rest" ] || { note "changes.txt: $1 has the text '$2' twice" && return 1; }
    printf '%s\n' "${text/"$2"/"$3"}" >"$1"
}

noticed=0 known=0 number=0
try() { # CASE KERNELS CHANGED KIND OLD NEW REASON
    rm -rf "$work/cuda" && cp -r "$MEGA_SOURCE/src/backend/cuda" "$work/cuda"
    change "$work/cuda/$3" "$5" "$6" || return
    compile "$2" || { note "$3 with '$6' does not compile: $(tail -3 "$work/out")" && return; }
    if MEGA_SOFTWARE_CUDA_STOP=1 MEGA_CUDA_LIBRARY=$work/changed.so timeout 300 "$kernels" "$1" >"$work/out" 2>&1; then
        if [ -n "$7" ]; then known=$((known + 1)); else note "$3 with '$6' ($4): nothing notices"; fi
    else
        noticed=$((noticed + 1))
        [ -z "$7" ] || note "changes.txt: $3 with '$6' is noticed"
    fi
}

# Without a change the kernels are right, compiled in this way too.
cp -r "$MEGA_SOURCE/src/backend/cuda" "$work/cuda"
compile column_sum.cu || { cat "$work/out"; fail "the kernels do not compile"; }
MEGA_CUDA_LIBRARY=$work/changed.so "$kernels" column_sum >"$work/out" 2>&1 || { cat "$work/out"; note "column_sum fails without a change"; }

finish_row() {
    [ -n "$row" ] || return 0
    number=$((number + 1))
    # shellcheck disable=SC2086 # four words
    [ $((number % every)) != 1 ] && [ "$every" != 1 ] || try $row "$old" "$new" "$reason"
    row=""
}
row="" old="" new="" reason=""
while IFS= read -r line; do
    case $line in
    "= "*) finish_row && row=${line#= } old="" new="" reason="" ;;
    "- "*) old=${line#- } old=${old//\\n/$'\n'} ;;
    "+ "*) new=${line#+ } new=${new//\\n/$'\n'} ;;
    "! "*) reason=${line#! } ;;
    esac
done <"$device/changes.txt"
finish_row
echo "of $number mistakes $((noticed + known)) were made: $noticed are noticed, $known are harmless"
[ "$number" -ge 50 ] || note "changes.txt has only $number mistakes"
finish
