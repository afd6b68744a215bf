/* SPDX-License-Identifier: MIT
 *
 * Where the installed files lie. They are found from where this code itself lies, so that an installed tree can be
 * moved; nothing of the tree it was built in is known to it. */
#ifndef RFG_DISPATCH_PATHS_H
#define RFG_DISPATCH_PATHS_H

/* The file that this code was loaded from: librfg.so, or the program that librfg.a is linked into. malloc'ed; NULL if
 * unknown. */
char *rfg_module_path(void);

/* PREFIX/relative, where PREFIX is the one that this library or program lies in (PREFIX/bin, PREFIX/lib/...), else the
 * one that it was configured for. malloc'ed; NULL without memory. */
char *rfg_prefix_path(const char *relative);

#endif
