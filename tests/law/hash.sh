#!/usr/bin/env bash
# Builds law_hash.c with one compiler and level, runs it, and compares every line with hashes.txt.
#
#     hash.sh "COMPILER AND FLAGS" STRIDE [EMULATOR]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

read -ra compile <<<"$1"
if [[ " $1 " == *" -mfma "* ]] && ! grep -qw fma /proc/cpuinfo; then
    echo "SKIPPED: this machine lacks FMA"
    exit 0
fi
"${compile[@]}" -std=gnu11 -ffp-contract=off -Wall -Wextra -Werror -I"$here/../../src" "$here/law_hash.c" \
    -o "$work/law_hash" -lm
${3:-} "$work/law_hash" "$2" >"$work/lines"
while read -r name hash; do
    expected=$(awk -v name="$name" '$1 == name { print $2 }' "$here/hashes.txt")
    if [ "$hash" != "$expected" ]; then
        echo "$name: $hash, expected ${expected:-a line in hashes.txt}"
        exit 1
    fi
done <"$work/lines"
echo "$(wc -l <"$work/lines") hashes are right"
