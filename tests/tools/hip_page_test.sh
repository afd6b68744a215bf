#!/bin/sh
# SPDX-License-Identifier: MIT
# hip_page_test.sh SOURCE BUILD: the commands of docs/hip.md, from "Run a program" on, give what the page says.
set -u
page=$1/docs/hip.md build=$2
if [ ! -e "$build/emulated-rocm/bitcode/ockl.bc" ] || ! command -v clang++-19 >/dev/null; then
    echo "SKIPPED: docs/hip.md: clang++-19, ROCm's device libraries (rocm-device-libs) or the emulated releases are not there"
    exit 77
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
fail() { echo "FAILED: $*" >&2; cat "$tmp/log" >&2; exit 1; }
# commands TITLE: those below this heading, but for what isn't one
commands() { sed -n "/^## $1/,/^## /{s/^    //p;/^$/p}" "$page" | grep -v '^rfg: warning\|^kernel ' | sed "s#build/emulated#$build/emulated#g"; }
cd "$tmp" && ln -s "$build" build || exit 1
commands "Run a program" >run.sh
grep -q clang++-19 run.sh || fail "no commands in $page"
sh -e run.sh >log 2>&1 || fail "the program"
said=$(sed -n 's/^It prints `\(.*\)`\.$/\1/p' "$page")
[ "$(cat log)" = "$said" ] || fail "the page says that it prints: $said"
commands "Break it" >break.sh
sh break.sh >log 2>&1 && fail "the broken program ended well"
# The page's report, but for addresses, offsets and the instruction.
for part in $(sed -n 's/^    \(rfg: warning\|kernel \)/\1/p' "$page" | grep -o 'global-out-of-bounds: load\|allocation [0-9]* ([0-9]* bytes\|argument [0-9])\|saxpy.hip:[0-9]*\|workgroup (.*), wave [0-9], lanes .*' | tr ' ' '~'); do
    grep -qF "$(echo "$part" | tr '~' ' ')" log || fail "the page's report has '$(echo "$part" | tr '~' ' ')'"
done
echo "docs/hip.md: right"
