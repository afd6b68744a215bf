/* SPDX-License-Identifier: MIT */
#ifndef RFG_EMU_EMU_BENCH_H
#define RFG_EMU_EMU_BENCH_H

/* For the architectures named, or the three that are emulated. The exit status. */
int emu_bench(char **archs, int n);

#endif
