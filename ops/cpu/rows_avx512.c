/* SPDX-License-Identifier: MIT */
#define LANES      16
#define ROWS_TABLE rfg_cpu_rows_avx512
#include "rows_micro.h"
