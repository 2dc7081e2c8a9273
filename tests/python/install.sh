#!/usr/bin/env bash
# Installs the Python package as a user would, into an environment of its own, with what its tests need beside it.
#
#     install.sh SOURCE_FOLDER ENVIRONMENT
#
# Without CUDA: its kernels take minutes to compile and have tests of their own. TOMBOLA_TEST_TORCH=1 installs torch too
# (some gigabytes); where it is missing its tests skip.
set -euo pipefail
mkdir -p "$2"
source=$(realpath "$1") venv=$(realpath "$2")

[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
pip=("$venv/bin/pip" --disable-pip-version-check -q)
"${pip[@]}" install -r "$source/tests/python/requirements.txt"
if [ "${TOMBOLA_TEST_TORCH:-0}" = 1 ]; then "${pip[@]}" install torch; fi
"${pip[@]}" install "$source" --config-settings=build-dir="$venv/build" \
    --config-settings=cmake.define.TOMBOLA_CUDA=OFF --config-settings=cmake.define.TOMBOLA_WERROR=ON

cd "$venv" # not the source folder, whose python/tombola has no library
"$venv/bin/python" -c "import tombola; print('tombola', tombola.__version__, tombola.__file__, tombola.info())"
