/* SPDX-License-Identifier: MIT */
#define LANES        8
#define ROWS_TABLE   rfg_cpu_rows_avx2
#define ROWS_FEATURE RFG_FEATURE_AVX2
#define ROWS_NEEDS   "AVX2, FMA and F16C"
#include "rows_micro.h"
