#!/usr/bin/env bash
# Unpacks Debian's ssh server into a folder, without installing it, and prints the program's path: for the test of two
# hosts (MEGA_TEST_SSHD).   tools/fetch_sshd.sh FOLDER
#
# If one is installed, prints its path; if none can be had, prints the reason to standard error and ends with status 1.
set -u
folder=$1
installed=$(PATH=$PATH:/usr/sbin command -v sshd) && echo "$installed" && exit 0
why() {
    echo "no ssh server for the test of two hosts: $1" >&2
    exit 1
}
[ "$(id -u)" -eq 0 ] || why "that test wants root"
command -v apt-get >/dev/null && command -v dpkg >/dev/null || why "this is no Debian system"
unshare --net --uts --mount true 2>/dev/null || why "namespaces are not allowed here"
mkdir -p "$folder" && folder=$(cd "$folder" && pwd) || why "$folder cannot be made"
if [ ! -x "$folder/sshd" ]; then
    wanted=openssh-server
    for library in $(apt-cache depends openssh-server 2>/dev/null | sed -n 's/^ *Depends: \(lib[^ ]*\)$/\1/p'); do
        dpkg-query -W -f '${Status}' "$library" 2>/dev/null | grep -q ' installed' || wanted="$wanted $library"
    done
    # shellcheck disable=SC2086  # a list of words
    (cd "$folder" && { apt-get download -q $wanted || { apt-get update -q &&
        apt-get download -q $wanted; }; }) >"$folder/log" 2>&1 ||
        why "$(tail -n 1 "$folder/log")"
    for package in "$folder"/*.deb; do dpkg -x "$package" "$folder" || why "$package cannot be unpacked"; done
    libraries=$(find "$folder" -name '*.so*' -printf '%h\n' | sort -u | paste -sd:)
    printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s/usr/sbin/sshd "$@"\n' "$libraries" "$folder" >"$folder/sshd"
    chmod +x "$folder/sshd"
fi
"$folder/sshd" -V >/dev/null 2>"$folder/log" || "$folder/sshd" -t -f /dev/null >>"$folder/log" 2>&1
grep -q 'error while loading' "$folder/log" && why "$(grep -m 1 'error while loading' "$folder/log")"
echo "$folder/sshd"
