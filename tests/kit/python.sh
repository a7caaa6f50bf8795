# shellcheck shell=bash
# For scripts that run Python: `. "$MEGA_SOURCE/tests/kit/python.sh"` sets $python to a Python with NumPy: python3, the
# system's, or the one of bench/peers/find. It is empty if none of them has NumPy.
for python in python3 /usr/bin/python3 "$("$MEGA_SOURCE/bench/peers/find" 2>/dev/null)"; do
    python=$(command -v "${python:-python3}") &&
        "$python" -c 'import sys, numpy; sys.exit(sys.version_info < (3, 8))' 2>/dev/null && break
    python=
done
export PYTHONDONTWRITEBYTECODE=1
