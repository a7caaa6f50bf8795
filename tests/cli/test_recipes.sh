#!/usr/bin/env bash
# The recipes of docs/recipes.md work: each tests/recipes/NAME.patch follows one. It applies to the sources, changes
# no more files than the recipe says, and the tests that it names pass with it. A patch begins with
#   recipe: TITLE              the recipe, by its title in docs/recipes.md
#   files: N                   how many files it may change at most, not counting tests
#   numbers: ROOM              a room, or a file of one, whose objects depend on what the patch changes: kinds of ops,
#                              a *_body.c, the table of commands
#   tests: PROGRAM [FILTER]    a test program, and which of its tests to run; one line for each program
# The test compiles the sources in the patch, the room of `numbers` and the test programs, without optimization, and
# links them with the libraries of the build. If a change makes a patch no longer apply, repair the patch in the same
# commit.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
: "${MEGA_BUILD:?run by ctest}"
command -v git >/dev/null || skip "git is not there (apt-get install git)"
tree=$work/tree

head_lines() { sed -n "/^--- /q; s/^$1: *//p" "$2"; }
changed() { sed -n 's/^+++ b\///p' "$1"; }

checks_patch() { # patch
    local name count most title
    name=$(basename "$1" .patch)
    title=$(head_lines recipe "$1")
    most=$(head_lines files "$1")
    grep -qxF "## $title" "$MEGA_SOURCE/docs/recipes.md" || note "$name: docs/recipes.md has no recipe '$title'"
    count=$(changed "$1" | grep -cvE '(^|/)tests/')
    if [ -z "$most" ] || [ "$count" -gt "$most" ]; then
        note "$name: $count files beside tests; its recipe promises ${most:-no number}"
    fi
    git -C "$tree" apply "$1" 2>why && return
    note "$name does not apply: $(cat why)"
    return 1
}

# The command that compiles a source file into OBJECT, out of the tree with the patch; a new file takes the flags of its
# neighbours.
compile_command() { # file object
    local like
    like=$(grep -F "\"file\": \"$MEGA_SOURCE/$1\"" -B 1 commands | grep -m 1 '"command"')
    [ -n "$like" ] || like=$(grep '"command"' commands |
        grep -m 1 -E " -c $MEGA_SOURCE/$(dirname "$1")/[a-z0-9_]*\.c\"")
    sed -e 's/^ *"command": "//' -e 's/",*$//' -e 's/\\"/"/g' -e "s| -o [^ ]*\.o -c .*| -O0 -o $2 -c $MEGA_SOURCE/$1|" \
        -e "s|$MEGA_SOURCE/|$tree/|g" <<<"$like"
}

object_of() { echo "$work/objects/$(tr / _ <<<"$1").o"; }

# The command that links a test program, to be run in the folder of the build, with these objects before the libraries.
link_command() { # program objects
    if [ -f "$MEGA_BUILD/build.ninja" ]; then
        ninja -C "$MEGA_BUILD" -t commands "tests/$1" | tail -n 1
    else
        cat "$MEGA_BUILD/CMakeFiles/$1.dir/link.txt"
    fi | sed -e "s| CMakeFiles/$1\.dir/[^ ]*\.o | $2 |" -e "s| -o tests/$1 | -o $work/$1 |"
}

# The source of a test program.
main_of() { # program
    grep '"command"' commands | grep -F "CMakeFiles/$1.dir/" | sed "s|.* -c $MEGA_SOURCE/\(.*\)\".*|\1|"
}

builds_and_runs() { # patch
    local name file program filter mains=() sources=() objects=() tests
    name=$(basename "$1" .patch)
    mapfile -t tests < <(head_lines tests "$1")
    for program in "${tests[@]}"; do
        file=$(main_of "${program%% *}")
        [ -n "$file" ] || { note "$name: there is no test program ${program%% *}"; return; }
        mains+=("$file")
    done
    mapfile -t sources < <({
        changed "$1" | grep '^src/.*\.c$' | grep -vE '/tests/|_body\.c$'
        for room in $(head_lines numbers "$1"); do (cd "$MEGA_SOURCE" &&
            find "src/$room" -name "*.c" ! -path "*/tests/*" ! -name "*_body.c"); done
    } | sort -u)
    while read -r file; do # a table of names: the C that is made of it takes the flags of cli/
        sources+=("src/cli/made_of_$(basename "$file" .txt).c")
        awk -v output="$tree/${sources[-1]}" -f "$MEGA_SOURCE/cmake/foreign.awk" \
            "$tree/src/base/include/megalith/option.h" \
            "$tree/src/cli/options_impl.h" "$tree/$file" 2>log || { note "$name: $(cat log)"; return; }
    done < <(changed "$1" | grep '^src/foreign/.*\.txt$')
    if changed "$1" | grep -q '^src/families/models/'; then # the list of families is made anew
        sources+=(src/families/made_of_models.c)
        awk -v output="$tree/${sources[-1]}" -f "$MEGA_SOURCE/cmake/families.awk" "$tree"/src/families/models/*.c \
            2>log || { note "$name: $(cat log)"; return; }
    fi
    for file in "${sources[@]}"; do objects+=("$(object_of "$file")"); done
    mkdir -p objects
    for file in "${sources[@]}" "${mains[@]}"; do compile_command "$file" "$(object_of "$file")"; done >compile
    tr '\n' '\0' <compile | xargs -0 -P "$(nproc)" -n 1 sh -c >log 2>&1 || { note "$name does not compile"; return; }
    for i in "${!tests[@]}"; do
        read -r program filter <<<"${tests[i]}"
        (cd "$MEGA_BUILD" && eval "$(link_command "$program" "$(object_of "${mains[i]}") ${objects[*]}")") >log 2>&1 ||
            { note "$name: $program does not link"; return; }
        "./$program" ${filter:+"$filter"} >log 2>&1 || note "$name: $program fails"
        grep -qE '^\[  PASSED  \] [1-9]' log || note "$name: no test of $program ran"
    done
}

export GIT_CEILING_DIRECTORIES=$work # git apply, too, works on the copy where $work lies in a repository
cp "$MEGA_BUILD/compile_commands.json" commands
for patch in "$MEGA_SOURCE"/tests/recipes/*.patch; do
    rm -rf "$tree" && mkdir "$tree" && cp -r "$MEGA_SOURCE/src" "$MEGA_SOURCE/tests" "$tree"
    checks_patch "$patch" || continue
    # Under sanitizers, which take several times as long, what applies is enough.
    is_sanitized || builds_and_runs "$patch"
done
[ -e "$patch" ] || note "there is no patch in tests/recipes"
finish
