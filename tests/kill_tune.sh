#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Kills a sweep again and again and compares what it leaves with an undisturbed one:
#   tests/kill_tune.sh BINDIR SHAPES.csv [KILLS [rfg-tune options]]
# Passes if the sets of tuned problems are equal and SQLite finds the database whole after every kill.
set -eu
[ $# -ge 2 ] || { sed -n '4,6p' "$0" >&2; exit 2; }
bin=$1 shapes=$2 kills=${3:-50}
if [ $# -gt 3 ]; then shift 3; else shift $#; fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

keys() {
    python3 - "$1" <<'PY'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
columns = [c[1] for c in db.execute("PRAGMA table_info(tuned)") if c[5]]
for row in sorted(db.execute("SELECT %s FROM tuned" % ", ".join(columns)), key=str):
    print(*row)
PY
}

integrity() {
    python3 -c 'import sqlite3, sys
r = sqlite3.connect(sys.argv[1]).execute("PRAGMA integrity_check").fetchall()
sys.exit(0 if r == [("ok",)] else "integrity_check: %s" % r)' "$1"
}

start=$(date +%s)
"$bin/rfg-tune" --db "$dir/whole.db" --shapes "$shapes" "$@" >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
took=$(($(date +%s) - start + 1))
keys "$dir/whole.db" >"$dir/whole"
echo "undisturbed: $(wc -l <"$dir/whole") rows in about $took s"

i=0
while [ $i -lt "$kills" ]; do
    i=$((i + 1))
    "$bin/rfg-tune" --db "$dir/killed.db" --shapes "$shapes" "$@" >"$dir/log" 2>&1 &
    pid=$!
    # At random moments, so that all kills together fill about one sweep.
    sleep "$(awk -v i="$i" -v p="$pid" -v t="$took" -v n="$kills" 'BEGIN { srand(p + i); print 0.05 + 2 * rand() * t / n }')"
    kill -9 $pid 2>/dev/null || true
    wait $pid 2>/dev/null || true
    [ ! -e "$dir/killed.db" ] || integrity "$dir/killed.db"
done
rows=0
[ ! -e "$dir/killed.db" ] || rows=$(keys "$dir/killed.db" | wc -l)
"$bin/rfg-tune" --db "$dir/killed.db" --shapes "$shapes" "$@" >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
integrity "$dir/killed.db"
keys "$dir/killed.db" >"$dir/after"
if cmp -s "$dir/whole" "$dir/after"; then
    echo "$kills kills left $rows rows; resumed: the same $(wc -l <"$dir/after") rows as undisturbed, integrity ok"
else
    echo "the sets of rows differ:"
    diff "$dir/whole" "$dir/after" || true
    exit 1
fi
