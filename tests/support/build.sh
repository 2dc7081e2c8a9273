#!/usr/bin/env bash
# Configures and builds tombola in a folder of its own, for tests that need another compiler or sanitizers.
#
#     build.sh SOURCE BUILD "TARGETS" CMAKE_OPTION ...
set -euo pipefail
source=$1 build=$2
read -ra targets <<<"$3"
shift 3
unset CC CXX CFLAGS CXXFLAGS LDFLAGS
cmake -S "$source" -B "$build" -DTOMBOLA_TESTS=ON -DTOMBOLA_CUDA=OFF -DTOMBOLA_WERROR=ON "$@" >"$build.log" 2>&1 ||
    { cat "$build.log"; exit 1; }
cmake --build "$build" --parallel 2 --target "${targets[@]}" >"$build.log" 2>&1 ||
    { tail -n 100 "$build.log"; exit 1; }
echo "built"
