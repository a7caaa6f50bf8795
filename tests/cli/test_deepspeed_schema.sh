#!/usr/bin/env bash
# Every key that the installed DeepSpeed reads has a row: "megalith help --json-page" lists it.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
peer=${MEGA_PEERS:-$("$MEGA_SOURCE/bench/peers/find" 2>/dev/null)}
[ -x "$peer" ] || skip "MEGA_PEERS names no Python that has deepspeed"
package=$("$peer" -c \
    'import importlib.util as u; s = u.find_spec("deepspeed"); print(s.submodule_search_locations[0] if s else "")')
[ -n "$package" ] || skip "$peer has no deepspeed"
version=$(sed -n "s/^version='\(.*\)'/\1/p" "$package/git_version_info_installed.py")
[ "$version" = 0.19.8 ] || skip "$peer has deepspeed $version; the rows are those of 0.19.8"
"$peer" "$MEGA_SOURCE/tests/cli/deepspeed_schema.py" "$package" >keys || fail "the keys that DeepSpeed reads"
[ "$(wc -l <keys)" -gt 250 ] || note "only $(wc -l <keys) keys were found in $package"
# "| `key` | …" in the sections "## At the top" and "## `block`" are the known paths; the parts before the dots are
# blocks.
"$MEGALITH" help --json-page | awk \
    '/^## /{block = ($0 ~ /`/) ? $2 : ""; gsub(/`/, "", block)} /^\| `/{split($0, f, "`"); print (block == "" ? "" : block ".") f[2]}' |
    sed 's/\[[0-9]*\]$//' | awk -F. \
        '{path = $1; print path; for (i = 2; i <= NF; i++) {path = path "." $i; print path}}' | sort -u >known
missing=$(sort keys | comm -23 - known)
[ -z "$missing" ] || note "keys of DeepSpeed $version without a row in the tables: $missing"
finish
