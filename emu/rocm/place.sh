#!/bin/sh
# SPDX-License-Identifier: MIT
# place.sh DIR STAMP LIBRARY... -- NAME... -- ARCH...: copies each library to DIR under its name (libx.so.6.4.60400),
# with links that a loader (libx.so.6) and a linker (libx.so) look for, and makes the files by which rocBLAS knows its
# architectures.
set -e
dir=$1 stamp=$2
shift 2
libraries=
while [ "$1" != -- ]; do
    libraries="$libraries $1"
    shift
done
shift
mkdir -p "$dir/rocblas/library"
for library in $libraries; do
    cp -f "$library" "$dir/$1.new"
    mv -f "$dir/$1.new" "$dir/$1"
    major=${1#*.so.}
    ln -sf "$1" "$dir/${1%.so.*}.so.${major%%.*}"
    ln -sf "$1" "$dir/${1%.so.*}.so"
    shift
done
shift
for arch; do
    : >"$dir/rocblas/library/TensileLibrary_lazy_$arch.dat"
done
touch "$stamp"
