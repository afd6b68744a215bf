/* SPDX-License-Identifier: MIT */
#define LANES      8
#define ROWS_TABLE rfg_cpu_rows_avx2
#include "rows_micro.h"
