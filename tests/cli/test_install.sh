#!/usr/bin/env bash
# make install: the program runs from where it was put, and a program outside the tree compiles against the installed
# headers (each alone), links with what pkg-config says, and runs. DESTDIR and moving the prefix afterwards work.
set -eu
: "${MEGA_SOURCE:?run by ctest}" "${MEGA_BUILD:?run by ctest}"
if ! command -v pkg-config >/dev/null; then
    echo "SKIPPED: pkg-config is not there"
    exit 77
fi
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
cc=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$MEGA_BUILD/CMakeCache.txt")
sanitize=$(sed -n 's/^MEGA_SANITIZE:[A-Z]*=//p' "$MEGA_BUILD/CMakeCache.txt")
extra=()
if [ -n "$sanitize" ]; then extra=("-fsanitize=$sanitize"); fi

DESTDIR="$temp/stage" cmake --install "$MEGA_BUILD" --prefix /opt/elsewhere >"$temp/log" 2>&1 || { cat "$temp/log"; exit 1; }
mv "$temp/stage/opt/elsewhere" "$temp/moved"
"$temp/moved/bin/megalith" --version | grep -q "^megalith [0-9]" || { echo "the installed program does not say its version"; exit 1; }

PKG_CONFIG_PATH=$(dirname "$(find "$temp/moved" -name megalith.pc)")
export PKG_CONFIG_PATH
[ "$(pkg-config --modversion megalith)" = "$("$temp/moved/bin/megalith" --version | head -n 1 | cut -d' ' -f2)" ]

# Every public header compiles alone.
cflags=$(pkg-config --cflags megalith)
count=0
for header in "$temp"/moved/include/megalith/*.h; do
    name=$(basename "$header")
    printf '#include <megalith/%s>\n' "$name" >"$temp/one.c"
    # shellcheck disable=SC2086  # a list of words
    $cc -std=c17 -Wall -Wextra -Werror $cflags -fsyntax-only "$temp/one.c" || { echo "megalith/$name does not compile alone"; exit 1; }
    count=$((count + 1))
done
[ "$count" -ge 10 ] || { echo "only $count headers were installed"; exit 1; }

cat >"$temp/user.c" <<'END'
#include <megalith/comm.h>
#include <megalith/hash.h>
#include <megalith/memory.h>
#include <megalith/threads.h>
#include <stdio.h>
#include <string.h>

static void square(void *user, int thread, int size)
{
    double *values = user;
    int64_t begin, end;
    mega_team_share(1000, 1, thread, size, &begin, &end);
    for (int64_t i = begin; i < end; i++) values[i] *= values[i];
}

int main(void)
{
    mega_team *team = NULL;
    void *block = NULL;
    if (mega_team_create(&team, 2) != MEGA_OK || mega_pages_alloc(&block, 8000, "values") != MEGA_OK) {
        fprintf(stderr, "%s\n", mega_error_message());
        return 1;
    }
    double *values = block, sum = 0;
    for (int i = 0; i < 1000; i++) values[i] = i;
    mega_team_run(team, square, values);
    for (int i = 0; i < 1000; i++) sum += values[i];
    printf("%.0f %08x\n", sum, mega_crc32c(0, "123456789", 9));
    mega_pages_free(block, 8000);
    mega_team_destroy(team);
    return 0;
}
END
# shellcheck disable=SC2046  # a list of words
$cc -std=c17 $cflags "${extra[@]}" "$temp/user.c" -o "$temp/user" $(pkg-config --libs megalith)
answer=$("$temp/user")
[ "$answer" = "332833500 e3069283" ] || { echo "the program answered: $answer"; exit 1; }

# The example trains, with the installed headers alone.
# shellcheck disable=SC2046,SC2086
$cc -std=c17 -Wall -Wextra -Werror $cflags "${extra[@]}" "$MEGA_SOURCE/examples/train_from_c.c" -o "$temp/train" $(pkg-config --libs megalith)
"$temp/train" >"$temp/losses"
awk '/step +1:/ { first = $NF } /step 100:/ { last = $NF } END { exit !(first > 2.5 && last < 0.1) }' "$temp/losses" ||
    { echo "examples/train_from_c.c has not learnt to count:"; cat "$temp/losses"; exit 1; }

# All libraries together, whole: every symbol that one room wants from another or from outside is found.
libs=$(pkg-config --libs megalith)
ours=$(printf '%s\n' $libs | grep -e '^-lmega_' | tr '\n' ' ')
rest=$(printf '%s\n' $libs | grep -v -e '^-lmega_' | tr '\n' ' ')
# shellcheck disable=SC2086
$cc -std=c17 $cflags "${extra[@]}" "$temp/user.c" -o "$temp/whole" $rest -Wl,--whole-archive $ours -Wl,--no-whole-archive $rest
[ "$("$temp/whole")" = "$answer" ]
echo "$count headers installed, each compiles alone; a program links and runs"
