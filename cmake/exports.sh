#!/bin/sh
# Writes the names of the functions that megalith.h and the headers included by it declare, one a line, sorted.
#
#   cmake/exports.sh OUTPUT COMPILER -Ifolder...
#
# The compiler preprocesses megalith.h; what comes from other folders than the -I ones is left out by the file names
# that it notes ("# 12 "path/megalith/file.h""). A declaration is a statement outside of braces that is no typedef and
# not static, and the first name before a parenthesis is that of its function.
set -eu
output=$1
compiler=$2
shift 2
echo '#include "megalith/megalith.h"' >"$output.c"
"$compiler" -std=c17 -E "$@" "$output.c" >"$output.i"
awk '
    /^# [0-9]+ "/ { ours = $3 ~ /\/megalith\/[a-z0-9_]+\.h"$/; next }
    /^#/ || !ours { next }
    {
        n = length($0)
        for (i = 1; i <= n; i++) {
            c = substr($0, i, 1)
            if (c == "{") depth++
            else if (c == "}") { if (--depth == 0 && text ~ /^ *static .*\) *$/) text = "" } # a function with its body
            else if (depth > 0) continue
            else if (c == ";") { declared(text); text = "" }
            else text = text c
        }
        text = text " "
    }
    function declared(t,   name) {
        if (t ~ /^ *(typedef|static)/) return
        if (match(t, /mega_[a-z0-9_]+ *\(/)) {
            name = substr(t, RSTART, RLENGTH)
            sub(/ *\($/, "", name)
            print name
        }
    }' "$output.i" | LC_ALL=C sort -u >"$output.new"
rm "$output.c" "$output.i"
mv "$output.new" "$output"
[ -s "$output" ] || { echo "exports.sh: no function found in megalith.h" >&2; exit 1; }
