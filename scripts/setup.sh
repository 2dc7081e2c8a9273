#!/usr/bin/env bash
# Installs what is missing of what `make run`, `test`, `bench` or `docs` needs, and nothing else.
#
#     scripts/setup.sh run|test|bench|docs
#
# Debian packages come through apt-get (with sudo when not root); Python packages go into .venv and
# .venv-nvcc (tests) or .venv-bench (the benchmark's peers). Elsewhere than on Debian it says what is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

purpose=${1:-run}
packages=() missing=()

# need WHAT PACKAGE: a command, or a header by its path under an include folder
need() {
    case $1 in
    /*) if [ -e "$1" ]; then return; fi ;;
    *.h) for folder in /usr/include /usr/local/include "/usr/include/$(uname -m)-linux-gnu"; do
             if [ -e "$folder/$1" ]; then return; fi
         done ;;
    *) if command -v "$1" >/dev/null; then return; fi ;;
    esac
    missing+=("$1") packages+=("$2")
}

need_compiler() {
    command -v cc >/dev/null || command -v gcc >/dev/null || command -v clang >/dev/null || need cc gcc
    need stdlib.h libc6-dev
    need pkg-config pkg-config
    need jansson.h libjansson-dev
    need cmake cmake
    need make make
}

# A Python that can make virtual environments.
need_python() {
    need python3 python3
    if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
        missing+=("python3's venv") packages+=(python3-venv)
    fi
}

install_packages() {
    if [ ${#packages[@]} = 0 ]; then return; fi
    echo "setup: missing ${missing[*]}"
    if ! command -v apt-get >/dev/null; then
        echo "setup: there is no apt-get here. Install these by hand (Debian's names): ${packages[*]}" >&2
        exit 1
    fi
    local as_root=()
    if [ "$(id -u)" != 0 ]; then
        if ! command -v sudo >/dev/null; then
            echo "setup: not root, and no sudo. As root: apt-get install ${packages[*]}" >&2
            exit 1
        fi
        as_root=(sudo)
    fi
    local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 -qq)
    "${apt[@]}" update
    "${apt[@]}" install -y --no-install-recommends "${packages[@]}" >/dev/null
}

# venv FOLDER REQUIREMENTS: made anew only where the requirements changed
venv() {
    if cmp -s "$2" "$1/installed.txt"; then return; fi
    echo "setup: $1 with $(tr '\n' ' ' <"$2")"
    python3 -m venv "$1"
    "$1/bin/pip" install -q --disable-pip-version-check -r "$2"
    cp "$2" "$1/installed.txt"
}

case $purpose in
run)
    need_compiler
    install_packages
    ;;
test)
    need_compiler
    need gcc gcc
    need g++ g++
    need clang clang
    compgen -G '/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a' >/dev/null || need libFuzzer libclang-rt-dev
    need nm binutils
    need clang-format-14 clang-format-14
    need cmocka.h libcmocka-dev
    need aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
    need /usr/aarch64-linux-gnu/include/stdlib.h libc6-dev-arm64-cross
    need qemu-aarch64 qemu-user
    need_python
    install_packages
    venv .venv tests/requirements.txt
    # The CUDA kernels' compiler, which needs no GPU.
    if [ "$(uname -m)" = x86_64 ] && ! PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin command -v nvcc >/dev/null; then
        venv .venv-nvcc tests/requirements-nvcc.txt
    fi
    ;;
bench)
    need_compiler
    need g++ g++
    need git git
    need_python
    install_packages
    if [ -e bench/requirements.txt ]; then venv .venv-bench bench/requirements.txt; fi
    ;;
docs)
    need_compiler
    need_python
    install_packages
    ;;
*)
    echo "usage: scripts/setup.sh run|test|bench|docs" >&2
    exit 2
    ;;
esac
