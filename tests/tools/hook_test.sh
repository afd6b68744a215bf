#!/bin/sh
# SPDX-License-Identifier: MIT
# ./dev hook in a small repository: what it refuses, and what it lets pass. Argument: the source tree.
set -eu
command -v git >/dev/null && command -v clang-format >/dev/null || { echo "SKIPPED: ./dev hook: no git or no clang-format"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cp "$1/dev" "$1/.clang-format" "$dir"
cd "$dir"
unset GIT_DIR GIT_INDEX_FILE GIT_WORK_TREE
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
mkdir include base ops dispatch tuner bench tests examples emu ops/act ops/calibrate ops/norm ops/device
git init -q .
n=0
passes() {
    "$@" >out 2>&1 || { echo "hook_test: refused: $*"; cat out; exit 1; }
    n=$((n + 1))
}
refused() {
    word=$1
    shift
    if "$@" >out 2>&1; then echo "hook_test: passed: $*"; exit 1; fi
    grep -q -- "$word" out || { echo "hook_test: no '$word' in the refusal of: $*"; cat out; exit 1; }
    n=$((n + 1))
}
commit() { git commit -q --allow-empty -m "$1"; }

passes ./dev hook
passes ./dev hook # again
long=$(printf '%072d' 0)
passes commit "$long"
refused "73 characters" commit "${long}1"
passes commit "Merge ${long}"
refused "only format" commit "Format"
refused "only format" commit "Reformat the kernels"
passes commit "Formats in one table"
printf 'int  a;\n' >base/a.c
git add base/a.c
refused base/a.c commit "Add a"
printf 'int a;\n' >base/a.c # in the working tree only
refused base/a.c commit "Add a"
git add base/a.c
printf 'int  a;\n' >base/a.c # and the other way round
passes commit "Add a"
printf 'int  a;\n' >ops/act/a.hip
git add ops/act/a.hip
refused ops/act/a.hip commit "Add a kernel"
git reset -q
printf 'int  a;\n' >notes.c # not a folder of ours
git add notes.c
passes commit "Add notes"
printf '#!/bin/sh\n' >.git/hooks/commit-msg
refused "is there already" ./dev hook
echo "$n passed, 0 failed"
