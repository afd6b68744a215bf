#!/bin/sh
# SPDX-License-Identifier: MIT
# install_test.sh SOURCE BUILD: installs into a folder of its own and uses what lies there as a stranger would.
set -eu
source=$1 build=$2
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }

DESTDIR=$tmp/root meson install -C "$build" --no-rebuild >"$tmp/log" 2>&1 || { cat "$tmp/log"; fail "meson install"; }
pc=$(find "$tmp/root" -name rfg.pc)
[ -n "$pc" ] || fail "no rfg.pc installed"
prefix=$(sed -n 's/^prefix=//p' "$pc")
root=$tmp/root$prefix
lib=$(dirname "$(dirname "$pc")")
export PKG_CONFIG_PATH="$(dirname "$pc")"
flags=$(pkg-config --define-variable=prefix="$root" --cflags --libs rfg)

# The example, outside the tree, in C and in C++, against the shared library.
cp "$source/examples/linear.c" "$tmp/linear.c"
cp "$source/examples/linear.c" "$tmp/linear.cc"
sed -i 's/rfg_context_params params = { .device = "cpu" }/rfg_context_params params = {}; params.device = "cpu"/' "$tmp/linear.cc"
# shellcheck disable=SC2086
gcc -std=c17 -Wall -Wextra -Werror "$tmp/linear.c" -o "$tmp/linear_c" $flags
# shellcheck disable=SC2086
g++ -std=c++17 -Wall -Wextra -Werror "$tmp/linear.cc" -o "$tmp/linear_cc" $flags
for program in linear_c linear_cc; do
    out=$(XDG_DATA_HOME=$tmp XDG_CACHE_HOME=$tmp LD_LIBRARY_PATH=$lib "$tmp/$program") || fail "$program: exit $?"
    [ "$out" = "1.5 2.25 10
5.5 6.25 26" ] || fail "$program printed: $out"
    readelf -d "$tmp/$program" | grep -q 'NEEDED.*librfg' || fail "$program does not use the shared library"
    ! readelf -d "$tmp/$program" | grep -qiE 'NEEDED.*(hip|cuda|nvrtc)' || fail "$program links a GPU library"
done
! readelf -d "$lib/librfg.so" | grep -qiE 'NEEDED.*(hip|cuda|nvrtc|comgr)' || fail "librfg links a GPU library"

# Each public header alone, in C and in C++.
for header in "$root"/include/rfg/*.h; do
    name=rfg/$(basename "$header")
    echo "#include <$name>" >"$tmp/h.c"
    gcc -std=c17 -Wall -Wextra -Wpedantic -Werror -I"$root/include" -fsyntax-only "$tmp/h.c" || fail "$name in C"
    g++ -x c++ -std=c++17 -Wall -Wextra -Werror -I"$root/include" -fsyntax-only "$tmp/h.c" || fail "$name in C++"
done

# What is exported is what the headers promise, and no more.
nm -D --defined-only "$lib/librfg.so" | awk '$2 ~ /[TDBRVW]/ { sub(/@.*/, "", $3); print $3 }' | sort >"$tmp/have"
cat "$root"/include/rfg/*.h | tr '\n' ' ' | grep -oE 'RFG_API [^;]*' | grep -oE 'rfg_[a-z0-9_]+ *\(' | tr -d ' (' |
    sort -u >"$tmp/want"
diff "$tmp/want" "$tmp/have" || fail "exported symbols differ from the headers (< headers, > library)"

# The installed programs run where they lie.
for program in rfg-tune rfg-db rfg-info rfg-compile rfg-bench; do
    LD_LIBRARY_PATH=$lib "$root/bin/$program" --help >/dev/null || fail "$program --help"
done
echo "install: $(wc -l <"$tmp/have") symbols exported, example runs from C and C++"
