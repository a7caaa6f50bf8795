#!/usr/bin/env bash
# Text that all ranks would print, such as help and mistakes of the command line, is printed once, with its exit status;
# so is the error of a file that only one rank cannot read.
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0
once() { # exit status, a text, then the command line
    local status=$1 text=$2
    shift 2
    ranks 2 "$MEGALITH" "$@" >log 2>&1 </dev/null
    local found=$?
    [ $found -eq "$status" ] && [ "$(grep -c -- "$text" log)" -eq 1 ] && return
    echo "FAILED: megalith $*: exit status $found, expected $status, and '$text' once: $(cat log)"
    failed=1
}
once 0 '^megalith [0-9]' --version
once 0 'usage: megalith COMMAND' help
once 0 'usage: megalith pretrain_gpt' pretrain_gpt --help
once 2 'usage: megalith COMMAND'
once 2 'is not a command' nonsense
once 2 'needs options' generate_samples_gpt
once 2 '--nonsense is not an option' tasks --nonsense
once 1 'is not implemented yet' checkpoint --nonsense
once 1 'several ranks run under' tokenize --tokenizer-type ByteTokenizer --text x

# A file that is missing on the host of one rank ends all ranks, with the message of that rank.
mkdir here elsewhere
echo "a prompt" >here/prompts.txt
in_folder() { echo "cd $1 && exec $MEGALITH generate_samples_gpt --load nothing --sample-input-file prompts.txt"; }
mkdir here/nothing elsewhere/nothing
ranks 1 sh -c "$(in_folder here)" : -n 1 sh -c "$(in_folder elsewhere)" >log 2>&1 </dev/null
[ $? -eq 1 ] && [ "$(grep -c 'error: rank 1: --sample-input-file prompts.txt: there is no such file' log)" -eq 1 ] ||
    { echo "FAILED: a file that one rank alone lacks: $(cat log)" && failed=1; }

# One rank that mpirun started has MPI as well, which a plan without a launcher does not count.
for i in $(seq 1 40); do echo "line $i of a text"; echo; done >text.txt
"$MEGALITH" preprocess_data --input text.txt --split-on-blank-lines --tokenizer-type ByteTokenizer --output-prefix t \
    >log 2>&1 || { cat log; failed=1; }
process_of() {
    "$@" "$MEGALITH" pretrain_gpt --preset tiny --micro-batch-size 1 --train-iters 1 --lr 1e-3 --dry-run \
        --tokenizer-type ByteTokenizer --data-path t_text_document --split 100,0,0 2>log </dev/null |
        sed -n 's/^  process *\([0-9.]*\) MB.*/\1/p'
}
alone=$(process_of env) launched=$(process_of ranks 1)
awk -v a="$alone" -v b="$launched" 'BEGIN { exit !(a > 5 && b > a + 5 && b < a + 14) }' ||
    { echo "FAILED: a process takes $alone MB alone, $launched MB under mpirun: $(cat log)" && failed=1; }
exit $failed
