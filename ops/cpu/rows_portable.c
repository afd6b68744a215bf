/* SPDX-License-Identifier: MIT */
#define LANES      4
#define ROWS_TABLE rfg_cpu_rows_portable
#include "rows_micro.h"
