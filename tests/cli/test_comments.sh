#!/usr/bin/env bash
# Every name in a comment of src/ exists (comment_names.py says what a name is). First the check itself: it finds a
# function, a file and a word in back quotes that do not exist, with their lines, and nothing else.
. "$MEGA_SOURCE/tests/kit/kit.sh"
command -v python3 >/dev/null || skip "there is no python3"
check=$MEGA_SOURCE/tests/cli/comment_names.py foreign=$MEGA_SOURCE/tests/cli/comment_names.txt

mkdir -p src/room
cat >src/room/here.c <<'C'
/* here_is() calls there_is() and `nowhere`; see room/here.c and gone.c,
 * or other_word, FAMILY_NAME and here_is_not. */
int here_is(void) { return there_is("here_is_not"); }
C
echo "other_word of another program" >few.txt
echo src/room/here.c | python3 "$check" few.txt >out && note "a name that does not exist is not found"
sort out | diff - <(printf 'src/room/here.c:%s\n' '1: gone.c' '1: nowhere' '2: FAMILY_NAME') ||
    note "other names than these three"
echo "never_met of another program" >>few.txt
echo src/room/here.c | python3 "$check" few.txt >out
grep -q 'never_met: no comment has it' out || note "a row without use is not found"

cd "$MEGA_SOURCE" || exit 1
if [ -e .git ]; then git ls-files; else find . -type f -not -path './build*' -printf '%P\n'; fi >"$work/files"
[ "$(wc -l <"$work/files")" -gt 1000 ] || note "only $(wc -l <"$work/files") files were looked at"
python3 "$check" "$foreign" <"$work/files" >"$work/wrong" ||
    note "comments with names that do not exist:" "$(cat "$work/wrong")"
finish
