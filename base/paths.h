/* SPDX-License-Identifier: MIT
 *
 * Finds installed files, relative to the file that this code was loaded from. So an installed tree can be moved. The
 * build tree's path is not compiled in. */
#ifndef RFG_DISPATCH_PATHS_H
#define RFG_DISPATCH_PATHS_H

/* The file that this code was loaded from: librfg.so, or the program that librfg.a is linked into. malloc'ed; NULL if
 * unknown. */
char *rfg_module_path(void);

/* PREFIX/relative. PREFIX is the one that this library or program is installed in (PREFIX/bin, PREFIX/lib/...), else
 * the configured one. malloc'ed; NULL without memory. */
char *rfg_prefix_path(const char *relative);

#endif
