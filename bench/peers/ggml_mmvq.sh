#!/bin/bash
# ggml_mmvq.sh GGML OUT TYPE...   builds OUT/mmvq-TYPE (q4_0, q4_k, ...) by nvcc from GGML, the ggml folder of
# llama-cpp-python's sdist (vendor/llama.cpp/ggml), all at once.
set -eu
here=$(cd "$(dirname "$0")" && pwd) ggml=$1 out=$2
shift 2
build() {
    name=$1
    case $name in
    q4_0) b=32 n=18 ;; q4_1) b=32 n=20 ;; q5_0) b=32 n=22 ;; q5_1) b=32 n=24 ;; q8_0) b=32 n=34 ;;
    q2_k) b=256 n=84 ;; q3_k) b=256 n=110 ;; q4_k) b=256 n=144 ;; q5_k) b=256 n=176 ;; q6_k) b=256 n=210 ;;
    iq4_nl) b=32 n=18 ;; iq4_xs) b=256 n=136 ;; mxfp4) b=32 n=17 ;; nvfp4) b=64 n=36 ;;
    esac
    type=GGML_TYPE_$(echo $name | sed 's/k$/K/; s/^q/Q/; s/^iq/IQ/; s/_nl/_NL/; s/_xs/_XS/; s/mxfp/MXFP/; s/nvfp/NVFP/')
    mkdir -p $out/$name
    # The switch over types keeps one case.
    python3 - $ggml/src/ggml-cuda/mmvq.cu $type > $out/$name/mmvq_one.cu <<'PY'
import re, sys
text, keep = open(sys.argv[1]).read(), sys.argv[2]
head, tail = text.split("static void mul_mat_vec_q_switch_type(", 1)
case = re.compile(r"        case (GGML_TYPE_\w+):\s*mul_mat_vec_q_switch_ncols_dst<\1>\s*\(.*?;\s*break;\n", re.S)
tail = case.sub(lambda m: m.group(0) if m.group(1) == keep else "", tail)
print(head + "static void mul_mat_vec_q_switch_type(" + tail)
PY
    nvcc -O3 -std=c++17 -arch=sm_90a -use_fast_math -extended-lambda -DONLY_TYPE=$type -DNAME="\"$name\"" -DBLOCK=$b -DBYTES=$n \
        -DGGML_CUDA_USE_GRAPHS -I$out/$name -I$ggml/include -I$ggml/src -I$ggml/src/ggml-cuda $here/ggml_mmvq.cu -o $out/mmvq-$name > $out/$name/log 2>&1 || tail -5 $out/$name/log
}
for t in "$@"; do build $t & done
wait
