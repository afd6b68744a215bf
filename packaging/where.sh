#!/bin/sh
# SPDX-License-Identifier: MIT
# where.sh LIBDIR: what to set so that pkg-config and programs find the librfg that was installed there; nothing, if they do.
set -eu
lib=$(realpath "$1")
PATH=$PATH:/usr/sbin:/sbin
found=$(pkg-config --variable=libdir rfg 2>/dev/null || true)
[ -n "$found" ] && [ "$(realpath -m "$found")" = "$lib" ] || echo "export PKG_CONFIG_PATH=$lib/pkgconfig    # for pkg-config"
ldconfig -p 2>/dev/null | grep -qF "=> $lib/librfg.so" ||
    echo "export LD_LIBRARY_PATH=$lib    # for programs, unless they are linked with -Wl,-rpath,$lib"
