#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Root folders for tests/faults_pool.py, as root:
#   faults_roots.sh build ROOT [TAR]   ROOT is a Debian 12 with the packages of ./dev and ccache (debootstrap; ./dev setup in it, or packages' files
#                                      copied there). Copies the commit that is checked out, or the sources of an archive, to /f/0 and /f/clean in it,
#                                      and builds both at once: /f/clean with gcov
#   faults_roots.sh copies ROOT N      ROOT-1 ... ROOT-N: the same files by hard links, but for /f/0, which is each one's own
set -euo pipefail
project=$(cd "$(dirname "$0")/../.." && pwd)

# /dev and /proc of a root. Not the machine's /dev: what tests leave in /dev/shm is the root's own.
nodes() {
    mkdir -p "$1"/dev/shm "$1"/dev/pts "$1"/proc "$1"/tmp "$1"/run
    chmod 1777 "$1"/dev/shm "$1"/tmp
    if [ ! -c "$1"/dev/null ]; then
        for node in "null 1 3" "zero 1 5" "full 1 7" "random 1 8" "urandom 1 9" "tty 5 0" "ptmx 5 2"; do
            read -r name major minor <<<"$node"
            mknod -m 666 "$1/dev/$name" c "$major" "$minor"
        done
        ln -s /proc/self/fd "$1"/dev/fd
        for k in 0:stdin 1:stdout 2:stderr; do ln -s "fd/${k%%:*}" "$1/dev/${k#*:}"; done
    fi
    mountpoint -q "$1"/proc || mount -t proc proc "$1"/proc
    mountpoint -q "$1"/dev/shm || mount -t tmpfs shm "$1"/dev/shm
}

inside() {
    root=$1
    shift
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=dumb CC="ccache gcc" CCACHE_DIR=/f/ccache chroot "$root" "$@"
}

case ${1:-}:$# in
build:[23])
    nodes "$2"
    mkdir -p "$2"/f/0/source "$2"/f/cache
    { [ $# = 3 ] && cat "$3" || git -C "$project" archive HEAD; } | tar -C "$2"/f/0/source -xf -
    inside "$2" sh -ec '
        cd /f/0/source; git init -q .; git add -A .; git -c user.name=a -c user.email=a@b commit -qm a
        mkdir -p /f/clean; cp -a /f/0/source /f/clean/source
        make() {
            cd /f/$1
            meson setup -Dtests=enabled -Dwerror=false -Ddebug=false -Demu_hosts=native $2 build source >setup.log 2>&1 || { tail -30 setup.log; exit 1; }
            ninja -C build >build.log || { tail -30 build.log; exit 1; }
        }
        make clean -Db_coverage=true &
        make 0 ""
        wait $!'
    ;;
copies:3)
    copy() {
        to=$1-$2
        mkdir -p "$to"/f
        for d in "$1"/*; do
            case ${d##*/} in f | proc | dev | tmp | run) ;; *) cp -al "$d" "$to"/ ;; esac
        done
        cp -al "$1"/f/ccache "$1"/f/cache "$to"/f/
        cp -a "$1"/f/0 "$to"/f/0
        nodes "$to"
    }
    for i in $(seq "$3"); do
        copy "$2" "$i" &
    done
    wait
    ;;
*)
    sed -n '4,8p' "$0" >&2
    exit 2
    ;;
esac
