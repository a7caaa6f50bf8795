#!/usr/bin/env bash
# A mistake in a table of src/foreign/ ends the build with the table's name, its line and what is wrong.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
cd "$work" || exit 1

# Makes C of a table that is given as text.
make_rows() { # TABLE
    printf '%b\n' "$1" >table.txt
    awk -v output=made.c -f "$MEGA_SOURCE/cmake/foreign.awk" "$MEGA_SOURCE/src/base/include/megalith/option.h" \
        "$MEGA_SOURCE/src/cli/options_impl.h" table.txt 2>said
}

head='# comment\n\nsection some_rows : a title'
right='text why : a "reason"\nno-effect some-name flag commands=pretrain+plan-bert : @why\nno-effect two flag : once, @why.'
make_rows "$head\n$right" ||
    fail "a table without mistakes: $(cat said)"
for member in '{.name = "some-name", .field = MEGA_NO_FIELD,' \
    '.kind = MEGA_OPTION_FLAG, .answer = MEGA_ANSWER_NO_EFFECT,' \
    '.commands = ((FOR_PRETRAIN) | FOR_PLAN) & ~FOR_BERT, .remark = "a \"reason\""},' \
    '.remark = "once, a \"reason\"."},' '#include "options_impl.h"'; do
    grep -qF "$member" made.c || note "the row has no $member: $(cat made.c)"
done
make_rows "room engine setup_options.h\n$head\n$right" || fail "a table of another room: $(cat said)"
grep -qF '#include "setup_options.h"' made.c || note "rows of another room do not include its header"
version=$(sed -n 's/^#define MEGA_DEEPSPEED_VERSION "\(.*\)"$/\1/p' "$MEGA_SOURCE/src/config/include/megalith/config.h")
grep -qF "text removed : (DeepSpeed ${version:?} no longer has it)" "$MEGA_SOURCE/src/foreign/deepspeed-json.txt" ||
    note "deepspeed-json.txt names another version of DeepSpeed than config.h, $version"
while IFS='|' read -r row expected; do
    rm -f made.c
    if make_rows "$head\nalias right int to=seq-length\n$row"; then note "$row: no mistake was found"; fi
    grep -q "^table.txt:5: error: .*$expected" said ||
        note "$row: expected a mistake in line 5 ($expected), found: $(cat said)"
    [ ! -e made.c ] || note "$row: C was made all the same"
done <<'ROWS'
idle name flag : why|"idle" is none of the answers
alias name|an answer, a name and a kind
alias name integer to=lr|no kind integer
alias name int|no to=
renamed name int : why|no to=
alias name int to=lr : why|an alias needs no remark
by-value name string : why|no cases=
no-effect name flag commands=pretain : why|no command or group of commands is called pretain
no-effect name flag commands=plan,bert : why|",bert" is not commands
no-effect name flag range=small : why|no range small
no-effect name flag answer=5 : why|a row has no answer=
no-effect name flag default=1 default=2 : why|default is given twice
no-effect name flag why|"why" is not of the form key=value
no-effect name flag : @why|no text why
section other xml : title|a section of xml is not known
ROWS
finish
