#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the peers' kernels for norms_, gemm_ and mha_peers.py into shared libraries; needs nvcc, no GPU.
#   bench/peers/build.sh flashinfer FLASHINFER_INCLUDE OUT.so
#   bench/peers/build.sh flashinfer_mha FLASHINFER_INCLUDE OUT.so      # flashinfer_mla: the same
#   bench/peers/build.sh flashinfer_xqa FLASHINFER_INCLUDE PAGE GROUP bf16|e4m3 OUT.so
#       FLASHINFER_INCLUDE: flashinfer/data/include of an unpacked flashinfer-python wheel
#   bench/peers/build.sh vllm VLLM_CSRC TORCH_INCLUDE OUT.so
#   bench/peers/build.sh vllm_moe VLLM_CSRC TORCH_INCLUDE OUT.so
#       VLLM_CSRC: csrc of vllm's source distribution; TORCH_INCLUDE: torch/include of an unpacked torch wheel
#   bench/peers/build.sh cublaslt OUT.so      # linked to libcublasLt, as the toolkit has it
#   bench/peers/build.sh floor OUT.so
# ARCH=sm_90a by default.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
arch=${ARCH:-sm_90a}
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)

# Everything but the entry points is hidden and, if nothing calls it, dropped.
build() {
    out=$1
    shift
    "$nvcc" -O3 -DNDEBUG --expt-relaxed-constexpr "-gencode=arch=compute_${arch#sm_},code=$arch" -cudart static \
        -shared -Xcompiler -fPIC,-fvisibility=hidden,-ffunction-sections,-fdata-sections -Xlinker --gc-sections,-s \
        -diag-suppress 20280 -o "$out" "$@"
}

case "${1:-} $#" in
"flashinfer 3") build "$3" -std=c++17 -I"$2" "$here/flashinfer.cu" ;;
"flashinfer_mha 3" | "flashinfer_mla 3")
    # its own copy of libcu++ where it has one: it is ahead of the toolkit's
    build "$3" -std=c++17 -I"$2/../cccl/libcudacxx/include" -I"$2/../cccl/cub" -I"$2/../cccl/thrust" -I"$2" -I"$2/../cutlass/include" \
        "$here/$1.cu" ;;
"flashinfer_xqa 6")
    xqa=$2/../csrc/xqa
    case "$5" in
    bf16) set -- "$@" -DCACHE_ELEM_ENUM=0 ;;
    e4m3) set -- "$@" -DCACHE_ELEM_ENUM=2 "$xqa/mha_sm90.cu" "$xqa/tensorMap.cpp" -lcuda ;;
    *) echo "build.sh: dtype $5: must be bf16 or e4m3" >&2; exit 2 ;;
    esac
    page=$3 group=$4 out=$6
    shift 6
    build "$out" -w -std=c++17 -DBEAM_WIDTH=1 -DUSE_INPUT_KV=0 -DUSE_CUSTOM_BARRIER=1 -DTOKENS_PER_PAGE="$page" \
        -DHEAD_ELEMS=128 -DINPUT_FP16=0 -DDTYPE=__nv_bfloat16 -DHEAD_GRP_SIZE="$group" -DSLIDING_WINDOW=0 \
        -DLOW_PREC_OUTPUT=0 -DSPEC_DEC=0 -DMLA_WRAPPER=0 -DUSE_SM90_MHA=1 -I"$xqa" "$here/flashinfer_xqa.cu" \
        "$xqa/mha.cu" "$@" ;;
"vllm 4" | "vllm_moe 4")
    build "$4" -std=c++20 -DUSE_CUDA -I"$2" -I"$3" -I"$3/torch/csrc/api/include" "$here/$1.cu" ;;
"cublaslt 2") build "$2" -std=c++17 "$here/cublaslt.cu" -lcublasLt ;;
"floor 2") build "$2" -std=c++17 "$here/floor.cu" ;;
*) sed -n '3,14s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
