#!/bin/sh
# SPDX-License-Identifier: MIT
# mpi.sh RANKS SHAPES OUT [RFG-TUNE OPTIONS]: the same by mpirun, whose own options are MPIRUN_OPTIONS (default: --bind-to none, so
# that compilers have all cores).
set -eu
[ $# -ge 3 ] || { echo "usage: mpi.sh RANKS SHAPES OUT [RFG-TUNE OPTIONS]" >&2; exit 2; }
ranks=$1 out=$3
here=$(cd "$(dirname "$0")" && pwd)
shift
mkdir -p "$out"
code=0
# shellcheck disable=SC2086
mpirun ${MPIRUN_OPTIONS:---bind-to none} -n "$ranks" "$here/shard.sh" "$@" || code=$?
rfg-db merge --db "$out/rows.db" "$out"/shard-*.csv
exit $code
