#!/usr/bin/env bash
# Installs into a folder of its own, and builds and runs a consumer against what is there: through pkg-config
# (shared and static) and through the CMake package (shared, static, default).
#
#     install.sh BUILD_FOLDER
set -euo pipefail
build=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

cmake --install "$build" --prefix "$prefix" >/dev/null
library=$(dirname "$(find "$prefix" -name 'libtombola.a')")
export PKG_CONFIG_PATH=$library/pkgconfig

needs_library() { # is libtombola.so among what the program is linked with?
    readelf -d "$1" | grep -q 'NEEDED.*libtombola'
}

# The installed .pc file names the prefix that was configured; it must be relocatable to this one.
flags() { pkg-config --define-variable=prefix="$prefix" "$@" tombola; }

echo "pkg-config, shared, version $(pkg-config --modversion tombola)"
# shellcheck disable=SC2046
cc "$here/consumer.c" -o "$work/shared" $(flags --cflags --libs)
LD_LIBRARY_PATH=$library "$work/shared"
needs_library "$work/shared"

echo "pkg-config, static"
mkdir "$work/static_only"
cp "$library/libtombola.a" "$work/static_only"
# shellcheck disable=SC2046
cc "$here/consumer.c" -o "$work/static" $(flags --cflags) -L"$work/static_only" $(flags --static --libs | sed "s#-L$library##")
"$work/static"
if needs_library "$work/static"; then
    echo "the static program needs libtombola.so"
    exit 1
fi

echo "CMake package"
cmake -S "$here" -B "$work/build" -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
cmake --build "$work/build" >/dev/null
for kind in shared static default; do "$work/build/consumer_$kind"; done
needs_library "$work/build/consumer_shared"
needs_library "$work/build/consumer_default"
if needs_library "$work/build/consumer_static"; then
    echo "tombola::static is not static"
    exit 1
fi

# The soname's links, and nothing of the tests.
version=$(pkg-config --modversion tombola)
test -e "$library/libtombola.so" -a -e "$library/libtombola.so.$version" -a -e "$library/libtombola.so.${version%.*}"
test "$(find "$prefix/include" -type f)" = "$prefix/include/tombola.h"
if find "$prefix" -name '*test*' -o -name '*cmocka*' | grep .; then exit 1; fi
echo "installed and used"
