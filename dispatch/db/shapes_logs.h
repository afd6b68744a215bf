/* SPDX-License-Identifier: MIT
 *
 * What shapes.c and rfg-db share of other programs' lists of problems. */
#ifndef RFG_DISPATCH_SHAPES_LOGS_H
#define RFG_DISPATCH_SHAPES_LOGS_H

#include "db.h"

/* 1: the line is a problem, 0: something else, -1: one that is refused. */
typedef int (*rfg_shapes_line_fn)(const char *line, struct rfg_problem *p, struct rfg_reason *why);

/* Our name of a dtype that may be spelled as PyTorch does ("torch.float8_e4m3fn"); text itself if there is none. */
const char *rfg_shapes_dtype(const char *text);

/* Who reads the lines of a text that begins so; NULL: it is no such text, but CSV. */
rfg_shapes_line_fn rfg_shapes_form(const char *head);

/* "GemmTunableOp_BFloat16_TN,tn_4096_8_7168_ld_7168_7168_4096": a line of the file of problems that PyTorch tunes
 * offline (torch.cuda.tunable.tune_gemm_in_file()). False: why it can't be said so. */
bool rfg_tunable_format(const struct rfg_problem *p, char *buf, size_t size, struct rfg_reason *why);

#endif
