#!/usr/bin/env bash
# How commands are named, helped and refused; the page of options is the generated one.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
fail() { note "$@"; }

diff <("$MEGALITH" help --options-page) "$MEGA_SOURCE/docs/options.md" >/dev/null ||
    fail "docs/options.md is not what \`megalith help --options-page\` writes; write it anew"

"$MEGALITH" pretrain_gpt --help | grep -qF "  --data-path VALUE…              prefix of" || fail "columns of --help count bytes"
"$MEGALITH" help | grep -q "^  pretrain_gpt  *trains a GPT$" || fail "help does not list pretrain_gpt"
"$MEGALITH" --help | grep -q "^usage: megalith COMMAND" || fail "--help"
"$MEGALITH" --version | grep -q "^megalith [0-9]" || fail "--version"
"$MEGALITH" >/dev/null 2>&1
[ $? -eq 2 ] || fail "no command at all: exit status"

for command in pretrain_gpt plan generate_samples_gpt tasks preprocess_data train_tokenizer tokenize data plot launch; do
    "$MEGALITH" $command --help >help 2>&1 || fail "$command --help: exit status"
    grep -q "^usage: megalith $command" help || fail "$command --help: usage"
    grep -q "^example" help || fail "$command --help: example"
    "$MEGALITH" help $command | cmp -s - help || fail "help $command is not $command --help"
    if "$MEGALITH" $command --num-threads 1 </dev/null 2>&1 | grep -q "not built into this program"; then continue; fi
    "$MEGALITH" $command </dev/null >example 2>&1
    status=$?
    [ $status -eq 2 ] || fail "$command alone: exit status $status"
    grep -q "^  megalith $command " example || fail "$command alone: no example: $(cat example)"
done

# A folder and .py do not matter, nor do - and _.
for typed in tools/preprocess_data.py ./preprocess_data.py preprocess-data /opt/megatron/tools/preprocess_data; do
    "$MEGALITH" "$typed" --help | grep -q "^usage: megalith preprocess_data" || fail "$typed"
done
"$MEGALITH" pretrain_gpt2.py --help | grep -q "^usage: megalith pretrain_gpt " || fail "pretrain_gpt2.py"
"$MEGALITH" tasks/main.py --help | grep -q "^usage: megalith tasks " || fail "tasks/main.py"

for typed in merge_mp_partitions pretrain_bert pretrain_t5 config checkpoint tools/run_text_generation_server.py; do
    text=$("$MEGALITH" "$typed" --x 2>&1) && fail "$typed: exit status 0"
    case "$text" in
    *"not built yet: "*) ;;
    *) fail "$typed: $text" ;;
    esac
done
text=$("$MEGALITH" tokenise 2>&1) && fail "tokenise: exit status 0"
[ "$text" = 'megalith: error: "tokenise" is not a command; did you mean tokenize?; megalith help lists them' ] || fail "tokenise: $text"

# The reader of a pipe may leave.
"$MEGALITH" help --options-page | head -n 1 >/dev/null
status=("${PIPESTATUS[@]}")
[ "${status[0]}" -eq 0 ] || [ "${status[0]}" -eq 141 ] || fail "a closed pipe: exit status ${status[0]}"
if [ -e /dev/full ]; then
    "$MEGALITH" help --options-page >/dev/full 2>/dev/null && fail "a full disk: exit status 0"
fi

finish
