#!/usr/bin/env bash
# megalith new as a user runs it: installed into a prefix that is then moved, in an empty folder outside of the source
# tree. The project compiles without warnings, as C and as C++, with every installed compiler. It trains on one rank and
# on two, saves, continues where it stopped, and generates text. Unsuitable names, folders and texts are refused, and
# then no files are left.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
: "${MEGA_BUILD:?run by ctest}"
for tool in pkg-config make; do command -v "$tool" >/dev/null || skip "$tool is not there (apt-get install $tool)"; done
cache() { sed -n "s/^$1:[A-Z]*=//p" "$MEGA_BUILD/CMakeCache.txt"; }
cc=$(cache CMAKE_C_COMPILER) sanitize=$(cache MEGA_SANITIZE)
cmake --install "$MEGA_BUILD" --prefix "$work/first" >log 2>&1 || fail "cmake --install: $(cat log)"
mv first moved
rm log
unset PKG_CONFIG_PATH MAKEFLAGS CFLAGS CPPFLAGS MEGA_SOURCE_DIR
export PATH=$work/moved/bin:$PATH
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0"
flags=(CC="$cc${sanitize:+ -fsanitize=$sanitize}" CFLAGS='-std=c11 -O2 -Wall -Wextra -Wpedantic -Werror')
seq -s ' ' 1 8000 >numbers.txt

# ---- what is written ----
megalith new poet --text numbers.txt >out 2>err || fail "megalith new: $(cat err)"
[ "$(ls -A poet | tr '\n' ' ')" = '.gitignore Makefile README.md ds.json poet.c text.txt ' ] ||
    note "the files are $(ls -A poet | tr '\n' ' ')"
[ "$(readlink -f poet/text.txt)" = "$work/numbers.txt" ] || note "text.txt leads to $(readlink -f poet/text.txt)"
grep -rq PROJECT poet && note "PROJECT was not replaced: $(grep -rn PROJECT poet | head -n 3)"
grep -qx '  cd poet && make && ./poet text.txt' out || note "the next command is not shown: $(cat out)"
[ "$(wc -l <poet/README.md)" -le 50 ] || note "the README is longer than a screen"
for name in ds.json Makefile README.md; do
    sed 's/PROJECT/poet/g' "$MEGA_SOURCE/examples/template/$name" | cmp -s - "poet/$name" ||
        note "poet/$name is not that of examples/template"
done
sed 's/PROJECT/poet/g' "$MEGA_SOURCE/examples/template/PROJECT.c" | cmp -s - poet/poet.c ||
    note "poet.c is not that of examples/template"

# ---- it compiles ----
cd poet || exit 1
make "${flags[@]}" >../out 2>../err || { note "make: $(cat ../err)"; cat ../out; }
if [ -z "$sanitize" ]; then
    for c in gcc clang; do
        command -v $c >/dev/null || continue
        make -B CC=$c CFLAGS='-std=c11 -O2 -Wall -Wextra -Wpedantic -Werror' >../out 2>&1 ||
            { note "make CC=$c"; head -n 5 ../out; }
    done
    for c in g++ clang++; do
        command -v $c >/dev/null || continue
        make -B CC="$c -x c++" \
            CFLAGS='-std=c++20 -O2 -Wall -Wextra -Wpedantic -Wno-missing-field-initializers -Werror' \
            >../out 2>&1 || { note "make with $c"; head -n 5 ../out; }
    done
fi
make "${flags[@]}" CPPFLAGS=-Ithere PKG_CONFIG_PATH=/nowhere >../out 2>&1 ||
    note "make with a PKG_CONFIG_PATH: $(cat ../out)"
bare=/usr/local/bin:/usr/bin:/bin
if ! PATH=$bare command -v megalith >/dev/null && ! pkg-config --exists megalith &&
    PATH=$bare command -v "${cc##*/}" >/dev/null; then
    PATH=$bare make -B >../out 2>&1 && note "make without the library succeeds"
    grep -q 'poet: pkg-config does not find the library megalith' ../out || note "without the library: $(cat ../out)"
    PATH=$bare:$work/moved/bin make -B CC="$cc${sanitize:+ -fsanitize=$sanitize}" >../out 2>&1 ||
        note "make with megalith on the PATH: $(cat ../out)"
fi
# A small model, for the test: the change that a user would make in the file.
sed -i 's/LAYERS = 4/LAYERS = 2/; s/WIDTH = 128/WIDTH = 32/; s/CONTEXT = 64/CONTEXT = 32/; s/STEPS = 600/STEPS = 80/
    s/REPORT = 50/REPORT = 20/; s/SAVE = 200/SAVE = 60/; s/WRITTEN = 400/WRITTEN = 90/' poet.c
make "${flags[@]}" >../out 2>&1 || note "make after a change: $(cat ../out)"

# ---- it trains, saves, writes and continues ----
losses() { grep -oE 'step +[0-9]+: loss [0-9.]+' "$1"; }
falls() { awk \
    '/step +20:/ { sub(",", "", $4); first = $4 } /step +80:/ { sub(",", "", $4); last = $4 } END { exit !(last < first && last < 2.5) }' "$1"; }
writes() { # FILE: after the log there are lines of the numbers that it was trained on
    sed 's/^\[0\] //' "$1" | awk '/^step +(80|120):/ { on = 1; next } on' | tr -d '\n' | grep -qE '([0-9]+ ){5}' ||
        note "no text was written: $(cat "$1")"
}
./poet numbers >../out 2>../err && note "a text that is not there"
grep -q '^poet: .*numbers' ../err || note "a text that is not there: $(cat ../err)"
./poet >../out 2>../err && note "no text"
grep -q 'usage: ./poet TEXT' ../err || note "no text: $(cat ../err)"
./poet --help >../out 2>../err || note "--help: $(cat ../err)"
grep -q 'usage: ./poet TEXT' ../out && grep -q '^ *--lr-decay-style ' ../out || note "--help: $(cat ../out)"
head -c 100 text.txt >short.txt
./poet short.txt >../out 2>../err && note "a short text"
grep -q 'short.txt: 100 bytes; more than 320 are needed' ../err || note "a short text: $(cat ../err)"
rm short.txt

./poet text.txt >one 2>../err || note "one rank: $(cat ../err)"
falls one || note "the loss does not fall: $(cat one)"
writes one
[ "$(ls checkpoints | grep -c '^iter_')" -eq 2 ] || note "checkpoints: $(ls checkpoints)"
./poet text.txt >../out 2>../err || note "once more: $(cat ../err)"
grep -qx 'continuing from step 80' ../out && [ -z "$(losses ../out)" ] ||
    note "a finished training continues: $(cat ../out)"
[ "$(awk '/^step +80/ { on = 1; next } on' one)" = "$(tail -n +2 ../out)" ] ||
    note "the same weights write another text: $(cat ../out)"
./poet ../../poet/README.md >../out 2>../err && note "another text is continued with"

# Stopped at step 60 and continued: the same losses as without a stop.
rm -rf checkpoints/iter_0000080
echo 60 >checkpoints/latest_checkpointed_iteration.txt
./poet text.txt >../out 2>../err || note "a continued run: $(cat ../err)"
grep -qx 'continuing from step 60' ../out || note "it does not continue: $(cat ../out)"
[ "$(grep '^step   80' ../out)" = "$(grep '^step   80' one)" ] || note "other losses after a stop: $(cat ../out)"

# ranks_test_… run layouts under sanitizers
if [ -z "$sanitize" ] && command -v mpirun >/dev/null && ! megalith doctor | grep -qE '^  MPI  *none'; then
    export OMP_NUM_THREADS=1
    same_losses() { # NAME: the losses in ../out are those of one rank, within the last digits
        paste -d' ' <(losses one) <(losses ../out) |
            awk '{ d = $4 - $8; n++; if (d > 0.003 || d < -0.003) bad = 1 } END { exit bad || n != 4 }' ||
            note "$1: other losses: $(cat ../out ../err)"
        writes ../out
        [ -s checkpoints/iter_0000080/model.safetensors ] || note "$1: no checkpoint"
    }
    layout() { # WORDS…: from the beginning, on two ranks
        rm -rf checkpoints
        megalith "$@" >../out 2>../err </dev/null || note "$*: $(tail -n 3 ../err)"
        same_losses "$*"
    }
    layout launch --nproc_per_node 2 ./poet text.txt
    layout deepspeed --num_gpus=2 ./poet text.txt --deepspeed_config ds.json
    layout launch --nproc_per_node 2 ./poet text.txt --zero-stage 3
    layout launch --nproc_per_node 2 ./poet text.txt --tensor-model-parallel-size 2
    layout torchrun --nproc_per_node 2 ./poet text.txt --pipeline-model-parallel-size 2
    # Two ranks resume a run of one rank, and one rank a run of a pipeline.
    ./poet text.txt >../out 2>../err && grep -qx 'continuing from step 80' ../out ||
        note "one rank after a pipeline: $(cat ../out ../err)"
    sed -i 's/STEPS = 80/STEPS = 120/' poet.c
    make "${flags[@]}" >../out 2>&1 && make train RANKS=2 "${flags[@]}" >../out 2>../err </dev/null ||
        note "make train: $(cat ../out ../err)"
    grep -q 'continuing from step 80' ../out && grep -q 'step  120' ../out ||
        note "make train does not continue: $(cat ../out)"
fi
make train TEXT=gone.txt "${flags[@]}" >../out 2>&1 && note "make train without the text"
grep -q 'poet: there is no gone.txt' ../out || note "make train without the text: $(cat ../out)"
make clean >/dev/null && [ ! -e poet ] && [ -d checkpoints ] || note "make clean"
cd ..

# ---- where the project is written ----
mkdir empty
megalith new empty >out 2>err && [ -s empty/empty.c ] && grep -qx '  cd empty && make && ./empty TEXT' out ||
    note "an empty folder: $(cat out err)"
[ ! -e empty/text.txt ] || note "a text without --text"
mkdir -p 'a b'
megalith new 'a b/two-words_2/' --text 'numbers.txt' >out 2>err && [ -s 'a b/two-words_2/two-words_2.c' ] ||
    note "a path: $(cat out err)"
megalith new dry --dry-run >out 2>err && [ ! -e dry ] && grep -q 'the folder dry would be made' out ||
    note "--dry-run: $(cat out err)"

# ---- refusals; no files are left ----
touch file
ln -s nowhere link
mkdir full && touch full/mine
ls -A >before
refuses 'no name' 'missing: PROJECT, the folder to make' new --text numbers.txt
refuses 'two names' 'found 2 names (a, b' new a b
refuses 'a name with a space' 'the name "my poet": expected at most 64 letters' new 'my poet'
refuses 'a name that begins with a dash' 'the name "_x"' new _x
refuses 'a dot' 'the name "."' new .
refuses 'nothing' 'the name ""' new ''
refuses 'a long name' 'expected at most 64 letters' new "$(printf 'x%.0s' $(seq 65))"
refuses 'a name of the project' 'the name "checkpoints": a file, a folder or a command of the project has it' new \
    checkpoints
refuses 'a full folder' 'the folder full is there and not empty (mine)' new full
refuses 'a file' 'file is there and not a folder' new file
refuses 'a link' 'link is there and not a folder' new link
refuses 'no folder above' 'gone' new gone/poet2
refuses 'a file above' 'file' new file/poet2
refuses 'no text' '--text gone.txt: there is no such file' new poet2 --text gone.txt
refuses 'a folder as text' '--text full: is a folder' new poet2 --text full
refuses 'both' '_x|--text gone.txt' new _x --text gone.txt
refuses 'an unknown option' '--txt|--text' new poet2 --txt numbers.txt
if [ -d /proc/self ]; then refuses 'a place that takes no files' '/proc' new /proc/poet2; fi
if [ "$(id -u)" != 0 ]; then
    mkdir locked && chmod 555 locked
    refuses 'no right to write' 'locked' new locked/poet2
    chmod 755 locked && rmdir locked
fi
# Killed between two files, by a limit on their size.
(ulimit -f 4 && megalith new poet2 >out 2>err) && note "a full disk"

ls -A | grep -vxE "before|now|out|err" >now
grep -vxE "before|now|out|err" before | diff - now || note "something was left behind"
# Files of a killed command are removed by the next one; files of others stay.
left=$(grep -oE 'poet2\.tmp-[A-Za-z0-9.-]+' err | head -n 1)
[ -n "$left" ] && mkdir "$left" poet2.tmp-mine && touch "$left/poet2.c" || note "no temporary name in: $(cat err)"
megalith new poet2 >out 2>err || note "after one that was killed: $(cat err)"
[ ! -e "$left" ] && [ -d poet2.tmp-mine ] && [ -s poet2/poet2.c ] || note "after one that was killed: $(ls -A)"
[ -e full/mine ] && [ "$(ls -A full)" = mine ] || note "the full folder was touched"
finish
