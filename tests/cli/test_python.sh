#!/usr/bin/env bash
# megalith.py is what python/make_module.py writes from the installed headers, and has the functions, members and
# constants that C has. Its arrays, errors, threads and Ctrl-C work as documented (python_module.py), on one rank
# and on two. examples/mnist.py has the same losses as examples/mnist.c, on one rank and on two.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
: "${MEGA_BUILD:?run by ctest}"
for tool in python3 pkg-config; do command -v "$tool" >/dev/null ||
    skip "$tool is not there (apt-get install $tool)"; done
cmake --install "$MEGA_BUILD" --prefix "$work/at" >log 2>&1 || fail "cmake --install"
PKG_CONFIG_PATH=$(dirname "$(find "$work/at" -name megalith.pc)")
export PKG_CONFIG_PATH
PYTHONPATH=$(pkg-config --variable=pythondir megalith)
export PYTHONPATH

python3 "$MEGA_SOURCE/python/make_module.py" at/include "$(pkg-config --modversion megalith)" >written 2>log ||
    fail "make_module.py"
diff "$MEGA_SOURCE/python/megalith.py" written >log || {
    note "python/megalith.py is old; write it again: python3 python/make_module.py >python/megalith.py"
    cp written "$PYTHONPATH/megalith.py"
}
cmp -s "$PYTHONPATH/megalith.py" written || note "another megalith.py is installed"
grep -oE '_function\(\s*"mega_[a-z0-9_]+"|^ +"mega_[a-z0-9_]+", ' written | grep -oE 'mega_[a-z0-9_]+' | sort >functions
diff "$MEGA_BUILD/library/exports.txt" functions >log || note "the functions are not those that the library exports"
is_sanitized && skip "the sanitizers have to be in the program that loads the library"
. "$MEGA_SOURCE/tests/kit/python.sh"
[ -n "$python" ] || { [ "$failures" -eq 0 ] || finish; skip "no python3 with NumPy (apt-get install python3-numpy)"; }

checks=$MEGA_SOURCE/tests/cli/python_module.py
cc=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$MEGA_BUILD/CMakeCache.txt")
"$python" "$checks" layout >of_python 2>log || note "the layout of structs"
# shellcheck disable=SC2046  # a list of words
"$cc" -std=c11 layout.c $(pkg-config --cflags megalith) -o layout >log 2>&1 && ./layout >of_c || note "layout.c"
diff of_c of_python >log || note "sizes, members or constants differ (<: in C; >: in Python)"
"$python" -X faulthandler "$checks" >log 2>&1 </dev/null || note "python_module.py"
"$python" -c 'import sys; sys.modules["numpy"] = None; import megalith; assert megalith.MEGA_F32 == megalith.F32 == 0' \
    >log 2>&1 ||
    note "megalith.py needs NumPy to be imported"
mkdir -p other/share/megalith
cp "$PYTHONPATH/megalith.py" other/share/megalith
other() { env "$@" PYTHONPATH="$work/other/share/megalith" "$python" -c 'import megalith' >log 2>&1; }
other && note "a megalith.py without its library was imported"
grep -q "^ImportError: libmegalith.so.* is neither in $work/other/lib nor" log ||
    note "what a megalith.py without its library says"
PYTHONPATH=$MEGA_SOURCE/python "$python" -c 'import megalith' >log 2>&1 && skip "megalith is installed for all users"
grep -q "^ImportError: libmegalith.so.*; in $MEGA_SOURCE: tools/build.sh.*LD_LIBRARY_PATH=$MEGA_SOURCE/build" log ||
    note "what the megalith.py of a clone says"
library=$(grep -om 1 'libmegalith\.so\.[0-9.]*[0-9]' written)
mkdir -p other/lib && echo "no library" >"other/lib/$library"
other && note "a file that is no library was loaded"
grep -q "^ImportError: $work/other/lib/$library cannot be loaded: " log || note "a library that cannot be loaded"
rm -r other/lib
other LD_LIBRARY_PATH="$(dirname "$PKG_CONFIG_PATH")" || note "LD_LIBRARY_PATH does not help"

# Synthetic digits: ten random pictures, with noise.
"$python" - <<'END' || fail "the digits"
import gzip
import numpy as np

random, label = np.random.default_rng(1), (np.arange(800) * 7 % 10).astype(np.uint8)
digits = random.integers(0, 128, (10, 28, 28), dtype=np.uint8)[label] + random.integers(0, 128, (800, 28, 28), dtype=np.uint8)
for name, array in ("images", digits), ("labels", label):
    with gzip.open(name, "wb") as file:
        file.write(bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes() + array.tobytes())
END
sed 's/^TRAIN, .*/TRAIN, TEST, EPOCHS = 640, 160, 3/' "$MEGA_SOURCE/examples/mnist.py" >mnist.py
# shellcheck disable=SC2046  # a list of words
"$cc" -std=c11 -O1 -DTRAIN=640 -DTEST=160 -DEPOCHS=3 "$MEGA_SOURCE/examples/mnist.c" -o mnist \
    $(pkg-config --cflags --libs megalith) >log 2>&1 || fail "mnist.c"
same() { # NAME COMMAND…: mnist.py prints the losses of mnist.c
    local name=$1
    shift
    rm -rf digits
    "$@" ./mnist images labels $options >of_c 2>log </dev/null || note "mnist.c, $name"
    rm -rf digits
    "$@" "$python" mnist.py images labels $options >of_python 2>log </dev/null || note "mnist.py, $name"
    [ "$(grep -c 'epoch [123]: loss' of_c)" = 3 ] || note "mnist.c, $name, printed: $(cat of_c)"
    diff of_c of_python || note "$name: mnist.py (>) has other losses than mnist.c (<)"
}
options=
same "one rank"
awk '{ sub(",", "", $4) } END { exit !($4 < 2.25) }' of_python || note "mnist.py does not learn: $(cat of_python)"
"$python" mnist.py images labels --zero-stge 1 >log 2>&1 && note "a wrong option was accepted"
grep -q '^megalith.Error: .*--zero-stge' log || note "what a wrong option says"

# On two ranks, in a subshell that is skipped if there is no MPI.
(
    . "$MEGA_SOURCE/tests/kit/ranks.sh"
    failures=0
    same "two ranks" ranks 2
    options="--pipeline-model-parallel-size 2"
    same "a pipeline" ranks 2
    options=
    same "launch" "$MEGALITH" launch --nproc_per_node 2
    expects() { # WHAT LINE…: what the two ranks print when rank 1 does WHAT
        local what=$1 line
        shift
        timeout 300 bash -c '. "$MEGA_SOURCE/tests/kit/ranks.sh"; ranks 2 "$@"' - "$python" "$checks" ranks "$what" \
            >out 2>log </dev/null
        ended=$?
        [ $ended -ne 124 ] || note "two ranks hang: $what"
        for line; do grep -qF "$line" out log || note "two ranks, $what: nobody says \"$line\""; done
    }
    expects nothing "rank 0 trained" "rank 1 trained"
    expects read "rank 0 ended with Error" "rank 1 ended with ZeroDivisionError"
    expects layer "rank 0 ended with Error" "rank 1 ended with ZeroDivisionError"
    expects interrupt "rank 0 ended with Interrupted" "rank 1 ended with KeyboardInterrupt"
    expects own "ZeroDivisionError: on one rank"
    expects exit "SystemExit: 7"
    [ $ended -eq 7 ] || note "sys.exit(7) on one rank ends mpirun with $ended"

    # Ctrl-C during a training under megalith launch.
    sed 's/, 3$/, 300/' mnist.py >long.py
    "$MEGALITH" launch --nproc_per_node 2 "$python" long.py images labels >out 2>log </dev/null &
    launched=$!
    for ((i = 0; i < 300; i++)); do grep -q 'epoch 1' out && break; sleep 0.1; done
    kill -INT $launched
    timeout 300 tail --pid=$launched -f /dev/null || { note "Ctrl-C does not end a training"; kill -KILL $launched; }
    wait $launched
    [ $? -eq 130 ] || note "Ctrl-C: another exit status than 130"
    grep -q KeyboardInterrupt log out || note "Ctrl-C: no KeyboardInterrupt"
    exit "$failures"
)
case $? in 0 | 77) ;; *) note "two ranks" ;; esac
finish
