#!/usr/bin/env bash
# The header and the shared library as others see them.
#
#     header.sh SHARED_LIBRARY
set -euo pipefail
library=$1
root=$(cd "$(dirname "$0")/../.." && pwd)
header=$root/include/tombola.h
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

check() { # check WHAT COMMAND...
    local what=$1
    shift
    if "$@" >"$work/out" 2>&1; then
        echo "ok: $what"
    else
        echo "NOT OK: $what"
        cat "$work/out"
        failures=$((failures + 1))
    fi
}

cat >"$work/alone.c" <<'C'
#include <tombola.h>
#include <tombola.h>
int main(void) { tombola_call call = TOMBOLA_CALL_INIT; return call.struct_size != sizeof call || call.rows; }
C
cat >"$work/use.cpp" <<'C'
#include <tombola.h>
#include <vector>

int main()
{
    tombola_options options = {sizeof(tombola_options), 1, TOMBOLA_ISA_PORTABLE, -1};
    tombola_context *context = nullptr;
    tombola_error error;
    if (tombola_context_create(&options, &context, &error) != TOMBOLA_OK) return 1;
    float logits[4] = {0.0f, 5.0f, 1.0f, 2.0f};
    tombola_step step = {};
    step.kind = TOMBOLA_TOP_K;
    step.k = 1;
    int32_t token = -1;
    tombola_call call = TOMBOLA_CALL_INIT;
    call.data = logits;
    call.rows = 1;
    call.vocab_size = 4;
    call.steps = &step;
    call.step_count = 1;
    call.tokens = &token;
    if (tombola_workspace_size(context, &call, &call.workspace_size, &error) != TOMBOLA_OK) return 2;
    std::vector<char> workspace(call.workspace_size);
    call.workspace = workspace.data();
    if (tombola_run(context, &call, &error) != TOMBOLA_OK) return 3;
    tombola_context_destroy(context);
    return token == 1 ? 0 : 4;
}
C

strict="-Wall -Wextra -Wpedantic -Wconversion -Werror -I$root/include"
for standard in c99 c11 c17; do
    check "the header alone in $standard" gcc -std=$standard $strict -Wstrict-prototypes "$work/alone.c" -o "$work/alone"
done
check "TOMBOLA_CALL_INIT is zero but for its size" "$work/alone"
for standard in c++11 c++17 c++20; do
    check "the header in $standard" g++ -std=$standard $strict -Wno-missing-field-initializers -c "$work/use.cpp" \
        -o "$work/use.o"
done
check "clang++ takes it too" clang++ -std=c++17 $strict -Wno-missing-field-initializers -c "$work/use.cpp" -o "$work/other.o"
check "a C++ program links" g++ "$work/use.o" "$library" -Wl,-rpath,"$(dirname "$library")" -o "$work/use"
check "and draws the right token" "$work/use"

lines=$(wc -l <"$header")
check "the header has $lines lines, 450 at most" test "$lines" -le 450

nm -D --defined-only "$library" | awk '{ print $3 }' | sort >"$work/exported"
grep -oE '\btombola_[a-z_]+\(' "$header" | tr -d '(' | sort -u >"$work/declared_or_named"
check "only tombola_ symbols are exported" bash -c "! grep -v '^tombola_' '$work/exported'"
check "all exported functions stand in the header" bash -c "! comm -23 '$work/exported' '$work/declared_or_named' | grep ."
for function in context_create context_destroy workspace_size run plan context_info version isa_name result_string; do
    check "tombola_$function is exported" grep -qx "tombola_$function" "$work/exported"
done
check "no CUDA library is linked" bash -c "! readelf -d '$library' | grep NEEDED | grep -iE 'cuda|nvidia'"

number() { sed -nE "s/^#define TOMBOLA_VERSION_$1 ([0-9]+)$/\1/p" "$header"; }
soname=$(readelf -d "$library" | sed -nE 's/.*SONAME.*\[(.*)\]/\1/p')
check "the soname is $soname" test "$soname" = "libtombola.so.$(number MAJOR).$(number MINOR)"
exit $((failures > 0))
