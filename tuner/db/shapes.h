/* SPDX-License-Identifier: MIT */
#ifndef RFG_TUNER_DB_SHAPES_H
#define RFG_TUNER_DB_SHAPES_H

/* rfg-db shapes: the problems of shapes files, logs and databases as one shapes file, or as what PyTorch tunes offline
 * (tunableop). out NULL or "-": stdout. The program's exit code: 0, 1 (lines refused, problems left out), 2. */
int rfg_db_shapes(const char *const *paths, int n, int tunableop, const char *out);

#endif
