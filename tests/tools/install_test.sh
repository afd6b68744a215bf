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
lib=$(dirname "$(dirname "$pc")")
export PKG_CONFIG_PATH="$lib/pkgconfig"
root=$(realpath "$(pkg-config --variable=prefix rfg)")
flags=$(pkg-config --cflags --libs rfg)

# Each struct's initialiser is one in C++, too.
{
    echo '#include <rfg/rfg.h>'
    sed -n 's/^#define RFG_\([A-Z_]*\)_INIT .*/\1/p' "$source"/include/rfg/*.h | while read -r name; do
        type=rfg_$(echo "$name" | tr '[:upper:]' '[:lower:]')
        echo "$type x_$type = RFG_${name}_INIT;"
    done
} >"$tmp/init.cc"
# shellcheck disable=SC2086
g++ -std=c++11 -Wall -Wextra -Werror -c "$tmp/init.cc" -o "$tmp/init.o" $flags

# README's lines of C compile.
{
    sed -n '/^```c$/,/^```$/{/^#include/p}' "$source/README.md"
    echo 'void die(const char *why);'
    echo 'void layer(void *x_ptr, void *w_ptr, void *y_ptr, int64_t M, int64_t N, int64_t K, rfg_stream stream)'
    echo '{'
    sed -n '/^```c$/,/^```$/{/^```/d;/^#include/d;p}' "$source/README.md"
    echo '}'
} >"$tmp/readme.c"
# shellcheck disable=SC2086
gcc -std=c17 -Wall -Wextra -Werror -c "$tmp/readme.c" -o "$tmp/readme.o" $flags

# The example, outside the tree, in C and in C++, against the shared library.
cp "$source/examples/linear.c" "$tmp/linear.c"
cp "$source/examples/linear.c" "$tmp/linear.cc"
sed -i 's/rfg_context_params params = { .size = sizeof(params), .device = "cpu" }/rfg_context_params params = RFG_CONTEXT_PARAMS_INIT; params.device = "cpu"/' "$tmp/linear.cc"
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

# Where nobody says otherwise libraries are in the prefix's lib: docs/python.md and pkg-config's and ld.so's defaults rely on it.
meson introspect "$source/meson.build" --buildoptions 2>/dev/null | python3 -c 'import json, sys
libdir = next(o["value"] for o in json.load(sys.stdin) if o["name"] == "libdir")
sys.exit(libdir != "lib" and "libdir is %s by default" % libdir)' || fail "meson.build"

# What packaging/where.sh says to set is enough, and it says nothing more to who has set it.
(
    unset PKG_CONFIG_PATH LD_LIBRARY_PATH
    "$source/packaging/where.sh" "$lib" >"$tmp/where"
    [ "$(sed 's/=.*//' "$tmp/where")" = "export PKG_CONFIG_PATH
export LD_LIBRARY_PATH" ] || { cat "$tmp/where"; fail "where.sh"; }
    . "$tmp/where"
    # shellcheck disable=SC2046
    gcc -std=c17 "$tmp/linear.c" -o "$tmp/linear_where" $(pkg-config --cflags --libs rfg)
    XDG_DATA_HOME=$tmp XDG_CACHE_HOME=$tmp "$tmp/linear_where" >/dev/null || fail "linear_where: exit $?"
    unset LD_LIBRARY_PATH
    rpath=$(sed -n 's/.*linked with //p' "$tmp/where")
    # shellcheck disable=SC2046
    gcc -std=c17 "$tmp/linear.c" -o "$tmp/linear_where" $(pkg-config --cflags --libs rfg) "$rpath"
    XDG_DATA_HOME=$tmp XDG_CACHE_HOME=$tmp "$tmp/linear_where" >/dev/null || fail "linear_where, by its rpath: exit $?"
    "$source/packaging/where.sh" "$lib" >"$tmp/where"
    [ "$(sed 's/=.*//' "$tmp/where")" = "export LD_LIBRARY_PATH" ] || { cat "$tmp/where"; fail "where.sh, PKG_CONFIG_PATH being set"; }
)

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

# The static library: one's own names are free for one's own use, but for rfg_*.
others=$(nm --defined-only "$lib/librfg.a" | awk '$2 ~ /[A-TVWX]/ && $3 !~ /^rfg_/ { print $3 }')
[ -z "$others" ] || fail "librfg.a exports: $(echo "$others" | head -5)"
# shellcheck disable=SC2086
gcc -std=c17 -Wall -Wextra -Werror "$tmp/linear.c" -o "$tmp/linear_static" -I"$root/include" "$lib/librfg.a" \
    $(pkg-config --static --libs rfg | sed 's/-lrfg//')
[ "$(XDG_DATA_HOME=$tmp XDG_CACHE_HOME=$tmp "$tmp/linear_static")" = "1.5 2.25 10
5.5 6.25 26" ] || fail "linear with librfg.a"

# The library's symbols have the version of its soname, and the programs that link it ask for that.
readelf -d "$lib/librfg.so" | grep -q 'SONAME.*\[librfg.so.0.2\]' || fail "librfg.so: soname: $(readelf -d "$lib/librfg.so" | grep SONAME)"
! nm -D --defined-only "$lib/librfg.so" | grep ' [TDBRVW] ' | grep -qv '@@RFG_0.2$' || fail "a symbol without the version RFG_0.2"
readelf -V "$tmp/linear_c" | grep -q 'Name: RFG_0.2 ' || fail "linear_c does not ask for RFG_0.2"

# A CMake project, with both libraries; a version that isn't this one's is refused.
if command -v cmake >/dev/null; then
    mkdir "$tmp/cmake"
    cp "$source/examples/linear.c" "$tmp/cmake/"
    cat >"$tmp/cmake/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.16)
project(linear C)
find_package(rfg ${WANTED} REQUIRED)
foreach(kind rfg rfg_static)
    add_executable(linear_${kind} linear.c)
    target_link_libraries(linear_${kind} PRIVATE rfg::${kind})
endforeach()
END
    cmake_build() { # ROOT
        rm -rf "$tmp/cmake/build"
        cmake -S "$tmp/cmake" -B "$tmp/cmake/build" -DWANTED=0.2 -DCMAKE_PREFIX_PATH="$1" >"$tmp/log" 2>&1 &&
            cmake --build "$tmp/cmake/build" >>"$tmp/log" 2>&1 || { cat "$tmp/log"; fail "the CMake project"; }
        for program in linear_rfg linear_rfg_static; do
            [ "$(XDG_DATA_HOME=$tmp XDG_CACHE_HOME=$tmp "$tmp/cmake/build/$program")" = "1.5 2.25 10
5.5 6.25 26" ] || fail "CMake's $program"
        done
        readelf -d "$tmp/cmake/build/linear_rfg" | grep -q 'NEEDED.*\[librfg.so.0.2\]' || fail "CMake's linear_rfg: $(readelf -d "$tmp/cmake/build/linear_rfg")"
        ! readelf -d "$tmp/cmake/build/linear_rfg_static" | grep -q 'NEEDED.*librfg' || fail "CMake's linear_rfg_static uses the shared library"
    }
    cmake_build "$root"
    for wanted in 0.1 0.2.99 1.0; do
        ! cmake -S "$tmp/cmake" -B "$tmp/cmake/other" -DWANTED=$wanted -DCMAKE_PREFIX_PATH="$root" >"$tmp/log" 2>&1 || fail "CMake took rfg for version $wanted"
        grep -q 'version: 0.2.0' "$tmp/log" || { cat "$tmp/log"; fail "CMake does not say which version there is"; }
    done
else
    echo "SKIPPED: the CMake package: no cmake"
fi

# Manual pages: of every program, each option of --help is in them, and man finds nothing wrong.
for program in "$root"/bin/rfg-*; do
    name=$(basename "$program")
    page=$root/share/man/man1/$name.1
    [ -s "$page" ] || fail "no manual page of $name"
    sed 's/\\//g' "$page" >"$tmp/page"
    for option in $("$program" --help | grep -oE -- '--[a-z][a-z-]+' | sort -u); do
        grep -qF -- "$option" "$tmp/page" || fail "$name.1 lacks $option"
    done
    if command -v man >/dev/null; then
        said=$(LC_ALL=C.UTF-8 MANWIDTH=100 man --warnings -E UTF-8 -l "$page" 2>&1 >"$tmp/shown") || fail "man $page"
        [ -z "$said" ] || fail "man says of $name.1: $said"
        grep -q "^NAME" "$tmp/shown" && grep -q "^       $name - " "$tmp/shown" || fail "$name.1 has no name"
    fi
done

# Completion: options, rfg-db's commands, devices.
cat >"$tmp/complete.sh" <<'END'
. "$1/share/bash-completion/completions/rfg-tune"
try() { # WORD...: what the last one may become
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    _rfg "$1" "${COMP_WORDS[COMP_CWORD]}"
    echo "${COMPREPLY[*]}"
}
try "$1/bin/rfg-tune" --sh
try "$1/bin/rfg-db" me
try "$1/bin/rfg-db" merge --pre
try "$1/bin/rfg-bench" --device nvidia
END
out=$(cd "$tmp" && bash "$tmp/complete.sh" "$root") || fail "completion"
[ "$out" = "--shapes --shard
merge
--prefer
nvidia:0 nvidia:all" ] || fail "completion says: $out"
for program in "$root"/bin/rfg-*; do
    [ -s "$root/share/bash-completion/completions/$(basename "$program")" ] || fail "no completion of $(basename "$program")"
done

# Nothing that is installed says where it was built.
! grep -rlF -e "$build" -e "$source" "$tmp/root" >"$tmp/named" || fail "names the build or source tree: $(cat "$tmp/named")"

# The installed tree is moved, the build and the source tree go away, and somebody makes the build's path again.
mkdir "$tmp/moved"
mv "$root" "$tmp/moved/rfg"
lib=$tmp/moved/rfg${lib#"$root"}
root=$tmp/moved/rfg
export PKG_CONFIG_PATH="$lib/pkgconfig"
! command -v cmake >/dev/null || cmake_build "$root"
cat >"$tmp/prepare.c" <<'END'
#include <rfg/rfg.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    rfg_context *ctx;
    rfg_context_params params = { .size = sizeof(params), .device = "emu:gfx90a:4" };
    if (argc != 2 || rfg_context_create(&ctx, &params) != RFG_OK ||
        rfg_prepare_from_csv(ctx, argv[1]) != RFG_OK)
        return fprintf(stderr, "%s\n", rfg_last_error()), 1;
    rfg_context_destroy(&ctx);
    return 0;
}
END
printf 'op,dtype,M,N,K\ngemm,bf16,1,64,64\ngemm,bf16,1,64,512\ngemm,fp32,3,64,64\n' >"$tmp/shapes.csv"
# shellcheck disable=SC2046
gcc -std=c17 -Wall -Wextra -Werror "$tmp/prepare.c" -o "$tmp/prepare" $(pkg-config --cflags --libs rfg)
mv "$root/bin/rfg-compile" "$root/bin/rfg-compile.real"
cat >"$root/bin/rfg-compile" <<END
#!/bin/sh
echo started >>"$tmp/installed-worker"
exec "$root/bin/rfg-compile.real" "\$@"
END
chmod +x "$root/bin/rfg-compile"
cat >"$tmp/alone.sh" <<END
set -eu
if [ "\$1" = hide ]; then
    mount -t tmpfs none "$build"
    mkdir "$build/tuner" "$build/bin"
    for program in "$build/tuner/rfg-compile" "$build/bin/rfg-compile"; do
        printf '#!/bin/sh\ntouch "$tmp/planted-worker"\n' >"\$program"
        chmod +x "\$program"
    done
fi
cd "$tmp"
export LD_LIBRARY_PATH=$lib XDG_DATA_HOME=$tmp/data XDG_CACHE_HOME=$tmp/cache
unset RFG_COMPILE_WORKER RFG_SYSTEM_DB RFG_BINDIR RFG_SOURCE_ROOT
for program in rfg-tune rfg-db rfg-info rfg-compile rfg-bench rfg-emu; do
    "$root/bin/\$program" --help >/dev/null || { echo "\$program --help"; exit 1; }
done
"$root/bin/rfg-db" path
"$tmp/prepare" "$tmp/shapes.csv"
END
if unshare -m true 2>/dev/null; then
    unshare -m sh "$tmp/alone.sh" hide >"$tmp/out" || { cat "$tmp/out"; fail "the moved tree without the build"; }
else
    echo "SKIPPED: hiding the build tree takes root (unshare -m)"
    sh "$tmp/alone.sh" keep >"$tmp/out" || { cat "$tmp/out"; fail "the moved tree"; }
fi
grep -q "^system  $root/share/rfg/sm_90_132-v4.db" "$tmp/out" || { cat "$tmp/out"; fail "rfg-db path in the moved tree"; }
[ ! -e "$tmp/planted-worker" ] || fail "a program in the build's path was started"
[ -s "$tmp/installed-worker" ] || fail "the moved rfg-compile was not started"
echo "install: $(wc -l <"$tmp/have") symbols exported, example runs from C and C++, shared and static; the tree can be moved"
