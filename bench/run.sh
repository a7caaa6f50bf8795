#!/usr/bin/env bash
# Runs the measurements that `make bench` has built and keeps what they print.   bench/run.sh [name pattern]
set -eu
cd "$(dirname "$0")/.."
results=bench/results/$(date -u +%Y%m%d-%H%M%S).txt
mkdir -p bench/results
{
    echo "# $(git describe --always --dirty 2>/dev/null || echo unknown) on $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(nproc) cores"
    for program in build/bench/bench_*"${1:-}"*; do
        echo "# $(basename "$program")"
        "$program"
    done
    case "bench_step" in *"${1:-}"*)
        if [ -x "${MEGA_PEERS:-}" ]; then
            echo "# the steps of bench_step in PyTorch"
            "$MEGA_PEERS" bench/peers/torch_step.py
        else
            echo "# PyTorch is not measured: MEGA_PEERS names no Python that has it"
        fi ;;
    esac
} | tee "$results"
echo "results in $results"
