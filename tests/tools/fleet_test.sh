#!/bin/sh
# SPDX-License-Identifier: MIT
# fleet_test.sh SOURCE BINDIR: the scripts of examples/fleet, on cpu. mpirun and sbatch are mocks that set what Open MPI and
# Slurm set (docs/shipping.md has what the real ones printed); where mpirun is installed it runs too.
set -eu
source=$1
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
fail() { echo "FAILED: $*" >&2; cat "$tmp/log" >&2; exit 1; }
export RFG_CACHE_DIR="$tmp/cache" RFG_CPU_ISA=portable RFG_THREADS=1 RFG_TEST_MEASURE=steady:gemm
for name in $(env | sed -n 's/^\(SLURM_[A-Z_]*\|OMPI_[A-Z_]*\|PMI_[A-Z_]*\)=.*/\1/p'); do unset "$name"; done
real=$(command -v mpirun || true)
mkdir "$tmp/bin"
PATH=$tmp/bin:$2:$PATH
cat >"$tmp/bin/mpirun" <<'END'
#!/bin/sh
[ "$1 $2 $3" = "--bind-to none -n" ] || exit 9
n=$4
shift 4
i=0
while [ $i -lt "$n" ]; do
    OMPI_COMM_WORLD_RANK=$i OMPI_COMM_WORLD_SIZE=$n OMPI_COMM_WORLD_LOCAL_RANK=$i "$@" || exit 1
    i=$((i + 1))
done
END
cat >"$tmp/bin/sbatch" <<'END'
#!/bin/sh
while [ "${1#--}" != "$1" ]; do
    case $1 in --array=0-*) last=${1#--array=0-} ;; --output=*) out=${1#--output=} ;; esac
    shift
done
i=0
while [ $i -le "$last" ]; do
    log=$(echo "$out" | sed "s/%a/$i/")
    SLURM_ARRAY_TASK_ID=$i SLURM_ARRAY_TASK_MIN=0 SLURM_ARRAY_TASK_COUNT=$((last + 1)) SLURM_PROCID=0 "$@" >"$log" 2>&1 || exit 1
    i=$((i + 1))
done
END
chmod +x "$tmp/bin/mpirun" "$tmp/bin/sbatch"
printf 'op,dtype,M,N,K\ngemm,bf16,1..5,16,32\n' >"$tmp/s.csv"
opts="--device cpu --per-shape 0.02 --candidates 2 --seed 1"

# has DIR FILES: its rows are those of one sweep, its shards as many.
has() {
    rfg-db shapes "$tmp/$1/rows.db" >"$tmp/shapes"
    cmp "$tmp/shapes" "$tmp/whole" || fail "$1: rows.db has other problems than one sweep"
    [ "$(ls "$tmp/$1"/shard-*.csv | wc -l)" = "$2" ] || fail "$1: $(ls "$tmp/$1")"
}
# shellcheck disable=SC2086
rfg-tune --shapes "$tmp/s.csv" --db "$tmp/whole.db" $opts >"$tmp/log" 2>&1 || fail "one sweep"
rfg-db shapes "$tmp/whole.db" >"$tmp/whole"
# shellcheck disable=SC2086
"$source/examples/fleet/mpi.sh" 2 "$tmp/s.csv" "$tmp/mpi" $opts >"$tmp/log" 2>&1 || fail "mpi.sh"
has mpi 2
# shellcheck disable=SC2086
"$source/examples/fleet/slurm.sh" 3 "$tmp/s.csv" "$tmp/slurm" $opts >"$tmp/log" 2>&1 || fail "slurm.sh"
has slurm 3
grep -q "shard 2/3: 1 of 5 shapes" "$tmp/slurm/task-2.log" || fail "task 2 says: $(cat "$tmp/slurm/task-2.log")"
# A lost task is made up for by the next run, the others go on from their rows.
rm "$tmp/slurm/shard-1.csv" "$tmp/slurm/rows.db"
# shellcheck disable=SC2086
"$source/examples/fleet/slurm.sh" 3 "$tmp/s.csv" "$tmp/slurm" $opts >"$tmp/log" 2>&1 || fail "slurm.sh again"
has slurm 3
grep -q "^0 tuned, 2 up to date" "$tmp/slurm/task-0.log" || fail "task 0 began anew: $(cat "$tmp/slurm/task-0.log")"
grep -q "^2 tuned, 0 up to date" "$tmp/slurm/task-1.log" || fail "task 1: $(cat "$tmp/slurm/task-1.log")"
# An array of ranks: a file each.
SLURM_ARRAY_TASK_ID=1 SLURM_ARRAY_TASK_COUNT=2 PMI_RANK=1 PMI_SIZE=2 "$source/examples/fleet/shard.sh" "$tmp/s.csv" "$tmp/both" \
    --device cpu --per-shape 0.02 >"$tmp/log" 2>&1 || fail "shard.sh"
[ -s "$tmp/both/shard-1.1.csv" ] || fail "both: $(ls "$tmp/both")"
if [ -n "$real" ]; then
    rm "$tmp/bin/mpirun"
    # shellcheck disable=SC2086
    MPIRUN_OPTIONS="--bind-to none --allow-run-as-root --oversubscribe" "$source/examples/fleet/mpi.sh" 2 "$tmp/s.csv" "$tmp/real" $opts \
        >"$tmp/log" 2>&1 || fail "$real"
    has real 2
else
    echo "SKIPPED: mpirun itself: not installed (openmpi-bin)"
fi
