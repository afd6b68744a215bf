/* SPDX-License-Identifier: MIT */
#include "../dispatch/jit.h"
#include <string.h>
int main(int argc, char **argv) { if (argc == 2 && !strcmp(argv[1], "--worker")) return rfg_jit_worker_main(); return 2; }
