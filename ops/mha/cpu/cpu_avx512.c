/* SPDX-License-Identifier: MIT */
#define LANES     16
#define MAX_ROWS  4
#define ISA_TABLE mha_cpu_isa_avx512
#include "cpu_micro.h"
