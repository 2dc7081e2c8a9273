#!/usr/bin/env bash
# Runs a libFuzzer target for a while, from the seeds given. What it finds is left in FOLDER.
#
#     fuzz.sh TARGET FOLDER SECONDS [SEED_FILE ...]
set -euo pipefail
target=$1 folder=$2 seconds=$3
shift 3
mkdir -p "$folder/corpus" "$folder/seeds"
if [ $# -gt 0 ]; then cp "$@" "$folder/seeds"; fi
"$target" -max_total_time="$seconds" -max_len=4096 -timeout=20 -rss_limit_mb=2048 -verbosity=1 \
    -artifact_prefix="$folder/" "$folder/corpus" "$folder/seeds" 2>"$folder/log" || { tail -n 60 "$folder/log"; exit 1; }
tail -n 2 "$folder/log"
