#!/usr/bin/env bash
# Names of commands, help and refusals; docs/options.md, docs/environment.md and docs/errors.md are up to date.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
fail() { note "$@"; }

diff <("$MEGALITH" help --json-page) "$MEGA_SOURCE/docs/deepspeed-json.md" >/dev/null ||
    fail "docs/deepspeed-json.md is not what \`megalith help --json-page\` writes; write it anew"
diff <("$MEGALITH" help --yaml-page) "$MEGA_SOURCE/docs/accelerate-yaml.md" >/dev/null ||
    fail "docs/accelerate-yaml.md is not what \`megalith help --yaml-page\` writes; write it anew"
diff <("$MEGALITH" help --options-page) "$MEGA_SOURCE/docs/options.md" >/dev/null ||
    fail "docs/options.md is not what \`megalith help --options-page\` writes; write it anew"
diff <("$MEGALITH" help --foreign-page) "$MEGA_SOURCE/docs/options-of-other-systems.md" >/dev/null ||
    fail "docs/options-of-other-systems.md is not what \`megalith help --foreign-page\` writes; write it anew"

diff <("$MEGALITH" help --environment-page) "$MEGA_SOURCE/docs/environment.md" >/dev/null ||
    fail "docs/environment.md is not what \`megalith help --environment-page\` writes; write it again"
diff <("$MEGA_SOURCE/tools/make_errors_page.sh") "$MEGA_SOURCE/docs/errors.md" >/dev/null ||
    fail "docs/errors.md is not what tools/make_errors_page.sh writes; write it again"
[ "$(grep -cE '^\| [0-9]+ \| `MEGA_(OK|ERR_[A-Z_]+)` \| [a-z /]+ \| [a-z]' "$MEGA_SOURCE/docs/errors.md")" = \
    "$(grep -cE '^    MEGA_(OK|ERR_[A-Z_]+)\b' "$MEGA_SOURCE/src/base/include/megalith/status.h")" ] ||
    fail "docs/errors.md does not name and explain every status"
# Every environment variable that the source reads is on the page.
for name in $(find "$MEGA_SOURCE/src" -name '*.c' ! -path '*/tests/*' -exec cat {} + |
    grep -oE '"(MEGA|OMPI_COMM|PMIX?|SLURM|OMP|TORCHELASTIC|MPI)_[A-Z_]+"|getenv\("[A-Z_]+"\)' |
    grep -oE '[A-Z][A-Z_]+' | grep -vE '^MEGA_(OK|ERR_|INIT_|EVAL$|GENERATE$|RUN_)' | sort -u); do
    grep -q "\`$name\`" "$MEGA_SOURCE/docs/environment.md" ||
        fail "docs/environment.md does not have $name, which the source reads; add it to src/config/environment.c"
done

"$MEGALITH" pretrain_gpt --help | grep -qF "  --data-path VALUE…              prefix of" ||
    fail "columns of --help count bytes"
"$MEGALITH" help | grep -q "^  pretrain_gpt  *trains a GPT$" || fail "help does not list pretrain_gpt"
"$MEGALITH" --help | grep -q "^usage: megalith COMMAND" || fail "--help"
"$MEGALITH" --version | grep -q "^megalith [0-9]" || fail "--version"
"$MEGALITH" >/dev/null 2>&1
[ $? -eq 2 ] || fail "no command at all: exit status"

for command in pretrain_gpt plan generate_samples_gpt tasks preprocess_data train_tokenizer tokenize data plot launch; \
    do
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

# Other names of commands are listed by their help, and proposed where one is misspelt.
"$MEGALITH" generate --help | grep -qx 'other names of the command: .*generate_text, generate, sample, infer' ||
    fail "other names: $("$MEGALITH" generate --help | head -5)"
"$MEGALITH" plan --help | grep -q 'other names' && fail "plan has other names"
for row in genrate:generate sampel:sample infre:infer preproces:preprocess; do
    "$MEGALITH" "${row%:*}" 2>err && fail "${row%:*} is a command"
    grep -qF "\"${row%:*}\" is not a command; did you mean ${row#*:}?" err || fail "${row%:*}: $(cat err)"
done

# A command may be given with a folder in front, with .py, and with - for _.
for typed in tools/preprocess_data.py ./preprocess_data.py preprocess-data /opt/megatron/tools/preprocess_data; do
    "$MEGALITH" "$typed" --help | grep -q "^usage: megalith preprocess_data" || fail "$typed"
done
"$MEGALITH" pretrain_gpt2.py --help | grep -q "^usage: megalith pretrain_gpt " || fail "pretrain_gpt2.py"
for typed in generate sample.py infer; do
    "$MEGALITH" "$typed" --help | grep -q "^usage: megalith generate_samples_gpt " || fail "$typed"
done
"$MEGALITH" tasks/main.py --help | grep -q "^usage: megalith tasks " || fail "tasks/main.py"

for typed in checkpoint convert export; do
    text=$("$MEGALITH" "$typed" --x 2>&1) && fail "$typed: exit status 0"
    case "$text" in
    *"not implemented yet: "*) ;;
    *) fail "$typed: $text" ;;
    esac
done
text=$("$MEGALITH" tokenise 2>&1) && fail "tokenise: exit status 0"
[ "$text" = 'megalith: error: "tokenise" is not a command; did you mean tokenize?; megalith help lists them' ] ||
    fail "tokenise: $text"
text=$("$MEGALITH" pretrain 2>&1) && fail "pretrain: exit status 0"
case "$text" in
*'did you mean pretrain_gpt, pretrain_bert or pretrain_t5?'*) ;;
*) fail "pretrain: $text" ;;
esac
text=$("$MEGALITH" eval 2>&1) && fail "eval: exit status 0"
case "$text" in
*'megalith tasks does its work here'*) ;;
*) fail "eval: $text" ;;
esac

# The reader of a pipe may close it early.
"$MEGALITH" help --options-page | head -n 1 >/dev/null
status=("${PIPESTATUS[@]}")
[ "${status[0]}" -eq 0 ] || [ "${status[0]}" -eq 141 ] || fail "a closed pipe: exit status ${status[0]}"
if [ -e /dev/full ]; then
    "$MEGALITH" help --options-page >/dev/full 2>/dev/null && fail "a full disk: exit status 0"
fi

finish
