#!/bin/sh
# SPDX-License-Identifier: MIT
# build.sh OUT [BUILD]: ggml with its CPU backend and its test-backend-ops, and libggml-rfg.so, in the folder OUT. BUILD is rfg's build
# folder; without it pkg-config says where rfg is. RFG_GGML_SOURCE: llama.cpp's sources, which are not written to; without it pip downloads
# the sdist of llama-cpp-python that holds them. RFG_GGML_BUILD: where ggml is built, once, in place of OUT.
set -eu
version=0.3.36
sha256=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e

fail() { echo "build.sh: $*" >&2; exit 1; }
[ $# = 1 ] || [ $# = 2 ] || fail "usage: build.sh OUT [BUILD]"
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
out=$(cd "$1" && pwd)
mkdir -p "${RFG_GGML_BUILD:=$out}"
ggml=$(cd "$RFG_GGML_BUILD" && pwd)

if [ -n "${RFG_GGML_SOURCE:-}" ]; then
    source=$RFG_GGML_SOURCE
else
    source=$out/llama_cpp_python-$version/vendor/llama.cpp
    if [ ! -d "$source" ]; then
        # pip asks the sdist for its metadata, so the sdist's build backend runs; the hash is checked before that.
        echo "llama-cpp-python==$version --hash=sha256:$sha256" >"$out/requirements.txt"
        python3 -m pip download -q --require-hashes --no-deps --no-binary :all: -d "$out" -r "$out/requirements.txt"
        tar -xzf "$out/llama_cpp_python-$version.tar.gz" -C "$out"
    fi
fi
for f in ggml/include/ggml.h ggml/src/ggml-backend-impl.h tests/test-backend-ops.cpp; do
    [ -f "$source/$f" ] || fail "RFG_GGML_SOURCE=$source: no $f: must be llama.cpp's sources (vendor/llama.cpp of llama-cpp-python's sdist)"
done

if [ ! -x "$ggml/bin/test-backend-ops" ]; then
    # ggml's CMakeLists.txt wants ggml.pc.in, which sdists leave out: a copy gets an empty one.
    mkdir -p "$ggml/source"
    cp -R "$source/ggml" "$ggml/source/"
    [ -f "$ggml/source/ggml/ggml.pc.in" ] || : >"$ggml/source/ggml/ggml.pc.in"
    # shellcheck disable=SC2086
    cmake -S "$ggml/source/ggml" -B "$ggml" -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON -DGGML_BACKEND_DL=ON -DGGML_NATIVE=OFF \
        -DGGML_OPENMP=OFF -DGGML_LLAMAFILE=OFF -DGGML_CPU_REPACK=OFF -DGGML_BUILD_TESTS=OFF -DGGML_BUILD_EXAMPLES=OFF >"$ggml/cmake.log" 2>&1 ||
        { cat "$ggml/cmake.log" >&2; fail "cmake"; }
    cmake --build "$ggml" --target ggml ggml-base ggml-cpu >"$ggml/build.log" 2>&1 || { tail -30 "$ggml/build.log" >&2; fail "ggml"; }
    c++ -std=c++17 -O1 -w -I"$source/ggml/include" "$source/tests/test-backend-ops.cpp" -o "$ggml/test-backend-ops.new" -L"$ggml/src" \
        -lggml -lggml-base -pthread -Wl,-rpath,"$ggml/src"
    mv "$ggml/test-backend-ops.new" "$ggml/bin/test-backend-ops" # beside libggml-cpu.so, which it looks for there
fi

if [ $# = 2 ]; then
    build=$(cd "$2" && pwd)
    flags="-I$here/../../include -L$build -lrfg -Wl,-rpath,$build"
else
    flags="$(pkg-config --cflags --libs rfg) -Wl,-rpath,$(realpath "$(pkg-config --variable=libdir rfg)")"
fi
# shellcheck disable=SC2086
${CC:-cc} -std=gnu17 -O2 -g -Wall -Wextra -Werror -Wmissing-prototypes -Wstrict-prototypes -ffp-contract=off -fvisibility=hidden -fPIC -shared \
    -isystem "$source/ggml/include" -isystem "$source/ggml/src" "$here/backend.c" "$here/ops.c" -o "$out/libggml-rfg.so" \
    -L"$ggml/src" -lggml-base $flags -lm -Wl,-z,defs ${RFG_GGML_CFLAGS:-}
echo "$out/libggml-rfg.so"
