# For scripts that train over ranks: `. "$MEGA_SOURCE/tests/kit/ranks_train.sh"`. A folder of its own, a data set
# d_text_document of bytes, and the comparison of metrics files.
. "$MEGA_SOURCE/tests/kit/ranks.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
fail() {
    echo "FAILED: $1"
    exit 1
}
for i in $(seq 1 400); do echo \
    "document $i of $((i * 7919 % 1000)) words: a quick fox jumps over $((i * 104729 % 991)) dogs"; echo; done >t.txt
"$MEGALITH" preprocess_data --input t.txt --split-on-blank-lines --append-eod --tokenizer-type ByteTokenizer \
    --output-prefix d >prepare.log 2>&1 ||
    fail "preprocessing"
losses() { grep -oE '"(iteration|lm_loss|grad_norm|validation_loss|test_loss)": *[0-9.e+-]+' "$1"; }
# near A B TOLERANCE: the same keys (15 or more), numbers this near
near() {
    paste -d' ' <(losses "$1") <(losses "$2") | awk -v t="$3" '
        {a = $2; b = $4; d = a - b; if (d < 0) d = -d; if ($1 != $3 || d > t * (b < 0 ? -b : b)) bad = 1; n++}
        END {exit bad || n < 15}'
}
