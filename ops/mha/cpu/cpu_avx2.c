/* SPDX-License-Identifier: MIT */
#define LANES     8
#define MAX_ROWS  2
#define ISA_TABLE mha_cpu_isa_avx2
#include "cpu_micro.h"
