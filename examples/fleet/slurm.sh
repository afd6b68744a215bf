#!/bin/sh
# SPDX-License-Identifier: MIT
# slurm.sh TASKS SHAPES OUT [RFG-TUNE OPTIONS]: tunes a shapes file by an array of TASKS Slurm tasks, waits for them, and merges
# their rows into OUT/rows.db. What sbatch needs besides (a partition, --gpus-per-task=1) goes into SBATCH_* variables or here.
set -eu
[ $# -ge 3 ] || { echo "usage: slurm.sh TASKS SHAPES OUT [RFG-TUNE OPTIONS]" >&2; exit 2; }
tasks=$1 out=$3
here=$(cd "$(dirname "$0")" && pwd)
shift
mkdir -p "$out"
code=0
sbatch --wait --job-name=rfg-tune --array="0-$((tasks - 1))" --output="$out/task-%a.log" "$here/shard.sh" "$@" || code=$?
rfg-db merge --db "$out/rows.db" "$out"/shard-*.csv
exit $code
