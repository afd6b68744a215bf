#!/bin/sh
# SPDX-License-Identifier: MIT
# shard.sh SHAPES OUT [RFG-TUNE OPTIONS]: one task of a fleet's sweep. It tunes its share of the shapes file and leaves the rows
# as OUT/shard-NUMBER.csv. Started by Slurm (an array), mpirun or srun, whose variables say which share: slurm.sh, mpi.sh.
#
# The database is a local file while it is written, as SQLite wants it; OUT may be on a network file system. A task that is
# started again goes on where its text file ends. Time limits: --time-budget, some minutes less than the job's.
set -eu
[ $# -ge 2 ] || { echo "usage: shard.sh SHAPES OUT [RFG-TUNE OPTIONS]" >&2; exit 2; }
shapes=$1 out=$2
shift 2
number=${SLURM_ARRAY_TASK_ID:-}
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-${SLURM_PROCID:-}}}
[ -z "$number" ] || [ "${OMPI_COMM_WORLD_SIZE:-${PMI_SIZE:-${SLURM_STEP_NUM_TASKS:-1}}}" -gt 1 ] || rank=
csv=$out/shard-$number${number:+${rank:+.}}$rank.csv
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# RFG_FLEET_GPU=nvidia (or amd): each rank of a host takes the GPU of its number there.
if [ -n "${RFG_FLEET_GPU:-}" ]; then
    set -- --device "$RFG_FLEET_GPU:${OMPI_COMM_WORLD_LOCAL_RANK:-${SLURM_LOCALID:-0}}" "$@"
fi
mkdir -p "$out"
[ ! -e "$csv" ] || rfg-db import --how keep --db "$dir/rows.db" "$csv"
code=0
rfg-tune --shapes "$shapes" --shard auto --db "$dir/rows.db" "$@" || code=$?
[ ! -e "$dir/rows.db" ] || rfg-db export -o "$csv" "$dir/rows.db"
exit $code
