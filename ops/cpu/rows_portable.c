/* SPDX-License-Identifier: MIT */
#define LANES        4
#define ROWS_TABLE   rfg_cpu_rows_portable
#define ROWS_FEATURE 0
#define ROWS_NEEDS   NULL
#include "rows_micro.h"
