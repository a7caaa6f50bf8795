#!/usr/bin/env bash
# megalith report as a user types it: one run, two side by side, in a pipeline, what it refuses. The page is read by
# Python's HTML parser, and drawn by Chromium where either is installed. Libraries of the launcher never free some of
# their memory.
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0"
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
. "$MEGA_SOURCE/tests/kit/python.sh"
unset LC_ALL LC_CTYPE LANG COLUMNS
has() { # NAME PART FILE
    grep -qF -- "$2" "$3" || note "$1: \"$2\" is not in $3"
}
lacks() { # NAME PART FILE
    grep -qF -- "$2" "$3" && note "$1: \"$2\" is in $3"
}

fox_lines 200 >text.txt
"$MEGALITH" preprocess_data --input text.txt --split-on-blank-lines --tokenizer-type ByteTokenizer --append-eod \
    --output-prefix text >log 2>&1 ||
    fail "preprocess_data"
base=(pretrain_gpt --num-layers 2 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16
    --micro-batch-size 2 --global-batch-size 8 --lr 1e-3 --tokenizer-type ByteTokenizer --data-path text_text_document
    --split 90,10,0 --eval-iters 1 --eval-interval 4 --train-iters 12)
mkdir one
"$MEGALITH" "${base[@]}" --metrics-file one/metrics.jsonl --num-threads 1 >log 2>&1 || fail "a training"
"$MEGALITH" launch --nproc_per_node 2 "${base[@]}" --metrics-file 'a<b>&"c".jsonl' --pipeline-model-parallel-size 2 \
    --seed 99 \
    --num-threads 1 >log 2>&1 || fail "a pipeline of two ranks"
[ -s one/metrics.jsonl.run.json ] || fail "no description beside the metrics"

# --- one run, named by its folder; then two
"$MEGALITH" report one >log 2>&1 || fail "one run"
has "one run" "wrote report.html" log
"$MEGALITH" report one/metrics.jsonl 'a<b>&"c".jsonl' -o two.html >log 2>&1 || fail "two runs"
for page in report.html two.html; do
    has "$page" '<meta name="generator" content="megalith report">' $page
    [ "$(grep -o 'https\?://[^"% ]*' $page | sort -u | tr '\n' ' ')" = "http://www.w3.org/2000/svg " ] ||
        note "$page names an address"
    lacks "$page" "<script" $page
    lacks "$page" "NaN" $page
    lacks "$page" ">nan" $page
done
has "characters of HTML" 'a&lt;b&gt;&amp;&quot;c&quot;.jsonl: validation' two.html
lacks "characters of HTML" 'a<b>' two.html
lacks "a scale that is not logged" 'id="loss-scale"' two.html
sed 's/"grad_norm"/"loss_scale": 65536, "grad_norm"/' one/metrics.jsonl >scaled.jsonl
"$MEGALITH" report scaled.jsonl -o scaled.html >log 2>&1 || fail "a run without a description"
has "a scale that is logged" '<figure id="loss-scale">' scaled.html
has "no description" "only its curves are shown: there is no scaled.jsonl.run.json" scaled.html
"$MEGALITH" report one --dry-run -o none.html >log 2>&1 || fail "--dry-run"
[ ! -e none.html ] || note "--dry-run wrote the page"
has "--dry-run" "a page about 1 run would be written to none.html" log

# --- a second run in the same metrics file takes over its description
cp one/metrics.jsonl shared.jsonl && cp one/metrics.jsonl.run.json shared.jsonl.run.json
id=$(sed -n 's/.*"run": "\([^"]*\)".*/\1/p' shared.jsonl | head -1)
sed 's/"run": "[^"]*"/"run": "later"/' one/metrics.jsonl >>shared.jsonl
"$MEGALITH" report shared.jsonl -o shared.html >log 2>&1 || fail "the last of two runs"
has "the last of two runs" "shared.jsonl.run.json is of run $id" shared.html
"$MEGALITH" report shared.jsonl --run "$id" -o shared.html >log 2>&1 || fail "the first of two runs"
lacks "the first of two runs" "is of run" shared.html

# --- what is refused
refuses "no run" "missing: the runs to show" report -o x.html
refuses "files that are not there" "none.jsonl: cannot open|other.jsonl: cannot open" report none.jsonl other.jsonl
mkdir empty several && touch several/a.jsonl several/b.jsonl
refuses "a folder without metrics" "empty: the folder holds no metrics file" report empty
refuses "a folder with two" "several: the folder holds 2 metrics files (a.jsonl, b.jsonl)" report several
refuses "a run that is not there" 'none of its rows is of run "x"' report one --run x
echo "my notes" >notes.html
refuses "a file of the user" "notes.html|is not a report of megalith|--overwrite" report one -o notes.html
[ "$(cat notes.html)" = "my notes" ] || note "notes.html was replaced"
cp one/metrics.jsonl kept.jsonl
refuses "the metrics themselves" "this is the metrics file kept.jsonl|kept.jsonl.html" report kept.jsonl --overwrite \
    -o kept.jsonl
cmp -s one/metrics.jsonl kept.jsonl || note "the page replaced the metrics"
echo "{}" >mine.jsonl.run.json
refuses "a description that is not one" "mine.jsonl.run.json|is not a description of a run" "${base[@]}" \
    --metrics-file mine.jsonl
echo "{" >kept.jsonl.run.json
refuses "a damaged description" "kept.jsonl.run.json: line 2" report kept.jsonl

# --- the page as a parser reads it
if [ -n "$python" ]; then
    "$python" "$MEGA_SOURCE/tests/cli/report_page.py" two.html one/metrics.jsonl 'a<b>&"c".jsonl' >log 2>&1 ||
        note "the page as Python reads it"
else
    echo "not read by Python: there is none with NumPy"
fi

# --- the page as a browser draws it
browser=
for name in chromium-headless-shell chromium chromium-browser google-chrome; do
    command -v $name >/dev/null && browser=$name && break
done
if [ -n "$browser" ]; then
    # the figures that the browser measured stand in the dumped page
    sed 's|</body>|<script src="measure.js"></script></body>|' two.html >measured.html
    cp "$MEGA_SOURCE/tests/cli/report_measure.js" measure.js
    timeout 120 $browser --headless --no-sandbox --disable-gpu --allow-file-access-from-files \
        --user-data-dir="$work/profile" \
        --virtual-time-budget=10000 --window-size=1400,3000 --dump-dom "file://$work/measured.html" >dump.html \
        2>browser.log
    sed -n 's/.*data-drawn="\([^"]*\)".*/\1/p' dump.html | tr ';' '\n' >drawn
    [ -s drawn ] || { cat browser.log; note "the browser measured nothing"; }
    for want in "loss: 4 curves, 4 seen" "learning-rate: 2 curves, 2 seen" "grad-norm: 2 curves, 2 seen" \
        "tokens: 2 curves, 2 seen" \
        "schedule: 1 pictures, 1 seen" "bars: 2 rows" "outside: 0"; do
        grep -qx "$want" drawn || note "drawn: \"$want\" is not among: $(tr '\n' ';' <drawn)"
    done
fi
[ "$failures" -eq 0 ] && [ -z "$browser" ] && skip \
    "the page was not drawn: no Chromium here (apt install chromium-headless-shell); all else passed"
finish
