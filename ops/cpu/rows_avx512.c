/* SPDX-License-Identifier: MIT */
#define LANES        16
#define ROWS_TABLE   rfg_cpu_rows_avx512
#define ROWS_FEATURE RFG_FEATURE_AVX512
#define ROWS_NEEDS   "AVX-512 F, BW, VL and DQ"
#include "rows_micro.h"
