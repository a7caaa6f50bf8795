#!/usr/bin/env bash
# Compares two builds bit for bit over the parity matrix: GPT without dropout, with the mean per micro-batch, trained by
# the pretrain_gpt of each.
#
#   tools/compare_builds.sh OLD_BUILD NEW_BUILD [rows=full|sparse] [only=PATTERN] [steps=N]
#
# OLD_BUILD, NEW_BUILD   folders with the program megalith; the list of layouts is that of NEW_BUILD (its ranks_matrix)
#   rows                   full: every pair of settings; sparse: of tensor ranks, stages and ZeRO      (default full)
#   only                   extended regular expression on the lines of the table                       (default: all)
#   steps                  of each run                                                                 (default 4)
#
# Each layout runs in fp32, bf16 and float64. Compared are the numbers that a step prints (loss, norm, learning rate,
# weight decay, samples), and every tensor of the checkpoint: weights, masters, moments. Prints a line for each run:
# equal, differs (where first), or not compared, if one build refuses an option or writes something that the other does
# not. Ends with
#   N equal, N differ, N not compared
# and status 0 if none differs. A layout whose order of summation was changed on purpose differs here; list it in the
# commit.
set -u

usage() {
    sed -n 's/^#   tools/usage: tools/p' "$0" >&2
    exit 2
}
full_path() { (cd "$1" 2>/dev/null && pwd) || { echo "compare_builds.sh: there is no folder $1" >&2; exit 2; }; }

# Options of pretrain_gpt for the words of a row (tests/kit/parity_matrix.h).
options_of() {
    local word layers=2
    for word in "$@"; do
        case $word in
        tp=*) echo "--tensor-model-parallel-size ${word#*=}" ;;
        sp=1) echo --sequence-parallel ;;
        pp=*) echo "--pipeline-model-parallel-size ${word#*=}" ;;
        chunks=*) echo "--num-virtual-stages-per-pipeline-rank ${word#*=}" ;;
        layers=*) layers=${word#*=} ;;
        first=*) echo "--decoder-first-pipeline-num-layers ${word#*=}" ;;
        last=*) echo "--decoder-last-pipeline-num-layers ${word#*=}" ;;
        zero=*) echo "--zero-stage ${word#*=}" ;;
        persist=*) echo "--stage3-param-persistence-threshold ${word#*=}" ;;
        overlap=1) echo --overlap-grad-reduce ;;
        recompute=selective) echo --recompute-granularity selective ;;
        recompute=full) echo --recompute-granularity full --recompute-method uniform --recompute-num-layers 1 ;;
        # the choice alone is compared: no layer of these models needs it
        recompute=budget) echo --activation-budget 100M ;;
        distribute=1) echo --distribute-saved-activations ;;
        decay=constant) echo --weight-decay 0.1 ;;
        decay=grows) echo --start-weight-decay 0 --end-weight-decay 0.2 --weight-decay-incr-style linear ;;
        lr=root) echo --lr-decay-style inverse-square-root --lr-warmup-samples 4 ;;
        lr=*) echo "--lr-decay-style ${word#*=} --min-lr 1e-4 --lr-warmup-samples 4" ;;
        optimizer=*) echo "--optimizer ${word#*=}" ;;
        ramp=1) echo --rampup-batch-size 4 4 8 ;; # as many samples in all
        micro=*) echo "--micro-batch-size ${word#*=}" ;;
        threads=*) echo "--num-threads ${word#*=}" ;;
        reduce=f16) echo --communication-data-type fp16 ;;
        reduce=*) echo "--communication-data-type ${word#*=}" ;;
        odd=1) echo --hidden-size 36 --ffn-hidden-size 92 ;;
        precision=f32) ;;
        precision=bf16) echo --bf16 ;;
        precision=f16) echo --fp16 --loss-scale 1024 ;;
        precision=f64) echo --fp64 ;;
        *)
            echo "compare_builds.sh: no option of pretrain_gpt is known for the setting $word; add it to options_of" >&2
            return 1
            ;;
        esac
    done
    echo "--num-layers $layers"
    case " $* " in *" lr="*) ;; *) echo --lr-decay-style constant ;; esac
    case " $* " in *" decay="*) ;; *) echo --weight-decay 0 ;; esac
    case " $* " in *" threads="*) ;; *) echo --num-threads 1 ;; esac
}

# Prints the numbers of each step, one line per step, without those that depend on the computer.
numbers() { sed 's/, "iteration_time_ms".*//; s/, "run".*//' "$1"; }

# Prints the first tensor that differs between two safetensors files, or is in only one; nothing if all are equal.
first_tensor() {
    python3 - "$1" "$2" <<'EOF'
import json, struct, sys
def read(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + size])
    head.pop("__metadata__", None)
    return {name: (t["dtype"], t["shape"], data[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]])
            for name, t in head.items()}
old, new = read(sys.argv[1]), read(sys.argv[2])
for name in sorted(old.keys() | new.keys()):
    if name not in old or name not in new:
        print(name, "is in one build alone")
    elif old[name] != new[name]:
        print(name, "has other bits" if old[name][:2] == new[name][:2] else f"is {old[name][:2]}, now {new[name][:2]}")
EOF
}

run() { # old or new, number of ranks, options
    local which=$1 n=$2 build=$old
    shift 2
    [ "$which" = old ] || build=$new
    rm -rf "${which:?}" "$which.jsonl"
    ranks "$n" "$build/megalith" "${base[@]}" "$@" --save "$which" --metrics-file "$which.jsonl" >"$which.log" 2>&1 \
        </dev/null
}

# Sets $found to the result of comparing one run of both builds.
compare() {
    local which file lacks='' differs=''
    for which in old new; do
        run "$which" "$@" || \
            lacks+="${lacks:+; }the $which build: $(grep -m1 'error' "$which.log" || tail -n1 "$which.log")"
    done
    if [ -n "$lacks" ]; then
        found="not compared  $lacks"
        return
    fi
    if ! cmp -s <(numbers old.jsonl) <(numbers new.jsonl); then
        differs=$(paste <(numbers old.jsonl) <(numbers new.jsonl) | awk -F'\t' '$1 != $2 {print $1 ", now " $2; exit}')
    fi
    while read -r file; do
        if [ ! -e "old/$file" ] || [ ! -e "new/$file" ]; then
            differs+=" $file is written by one build alone"
        elif ! cmp -s "old/$file" "new/$file"; then
            differs+=" $(first_tensor "old/$file" "new/$file" | sed -n "1s|^|$file: |p")"
        fi
    done < <(find old new -name '*.safetensors' -printf '%P\n' | sort -u)
    case $differs in
    *[!\ ]*) found="differs       $differs" ;;
    *) found=equal ;;
    esac
}

main() {
    local rows=full only=. steps=4 argument n row precision line words
    [ $# -ge 2 ] || usage
    old=$(full_path "$1") || exit 2
    new=$(full_path "$2") || exit 2
    shift 2
    for argument in "$@"; do
        case $argument in
        rows=full | rows=sparse) rows=${argument#*=} ;;
        only=?*) only=${argument#*=} ;;
        steps=[1-9]*) steps=${argument#*=} ;;
        *) usage ;;
        esac
    done
    for argument in "$old" "$new"; do
        [ -x "$argument/megalith" ] || { echo "compare_builds.sh: $argument has no program megalith; build it first" \
            >&2; exit 2; }
    done
    list=$("$new/tests/ranks_matrix" "$rows") || exit 2
    MEGALITH=$new/megalith
    MEGA_SOURCE=$(full_path "$(dirname "$0")/..")
    # shellcheck source=/dev/null
    . "$(dirname "$0")/../tests/kit/ranks.sh"
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    cd "$work" || exit 1
    for n in $(seq 1 200); do echo \
        "document $n of $((n * 7919 % 1000)) words: a quick fox jumps over $((n * 104729 % 991)) dogs"; echo; done \
        >t.txt
    "$MEGALITH" preprocess_data --input t.txt --split-on-blank-lines --append-eod --tokenizer-type ByteTokenizer \
        --output-prefix d \
        >prepare.log 2>&1 || { cat prepare.log; exit 1; }
    # shellcheck disable=SC2054  # the commas of --split
    base=(pretrain_gpt --hidden-size 32 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16 \
        --global-batch-size 8
        --lr 1e-3 --train-samples "$((8 * steps))" --log-interval 1 --eval-iters 0 --hidden-dropout 0 \
            --attention-dropout 0
        --tokenizer-type ByteTokenizer --data-path d_text_document --split 100,0,0 --ddp-bucket-size 5000)
    equal=0 differ=0 other=0
    while read -r n row; do
        for precision in f32 bf16 f64; do
            line="$n ranks, $row precision=$precision"
            [ "$precision" != f64 ] || line=${line/ threads=2/} # the plain kernels use one
            # shellcheck disable=SC2086  # a list of words
            words=$(options_of ${line#*, }) || exit 2 # also for rows that `only` leaves out
            grep -qE -- "$only" <<<"$line" || continue
            # shellcheck disable=SC2086
            compare "$n" $words
            case $found in
            equal) ((++equal)) ;;
            differs*) ((++differ)) ;;
            *) ((++other)) ;;
            esac
            printf '%-100s %s\n' "$line" "$found"
        done
    done < <(sed -E 's/ (precision|loss)=[a-z0-9]+//g' <<<"$list" | sort -u)
    echo "$equal equal, $differ differ, $other not compared"
    [ "$differ" -eq 0 ] && [ "$((equal + other))" -gt 0 ]
}

main "$@"
