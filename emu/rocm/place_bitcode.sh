#!/bin/sh
# SPDX-License-Identifier: MIT
# place_bitcode.sh CLANG FROM DIR STAMP: ROCm's device libraries for clang's --rocm-device-lib-path. DIR gets links to
# FROM's, which Debian has of ROCm 5.2, and what these lack: the numbers of newer processors and of code object version 6.
# Without FROM ("") there is no DIR.
set -e
clang=$1 from=$2 dir=$3 stamp=$4

constant() { # FILE NAME VALUE
    [ -e "$dir/$1" ] || echo "extern const __attribute__((address_space(4))) int $2; const __attribute__((address_space(4))) int $2 = $3;" |
        "$clang" --no-default-config -x c -target amdgcn-amd-amdhsa -nogpulib -Xclang -mcode-object-version=none -O2 -emit-llvm -c - -o "$dir/$1"
}

rm -rf "$dir"
if [ -n "$clang" ] && [ -n "$from" ]; then
    mkdir -p "$dir"
    ln -s "$from"/*.bc "$dir"
    for isa in 942:9402 1100:11000 1101:11001 1102:11002 1103:11003 1150:11500 1151:11501 1200:12000 1201:12001; do
        constant "oclc_isa_version_${isa%:*}.bc" __oclc_ISA_version "${isa#*:}"
    done
    constant oclc_abi_version_600.bc __oclc_ABI_version 600
fi
touch "$stamp"
