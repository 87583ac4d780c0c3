#!/bin/sh
# What the presets compile by: with ccache, where it is, what was compiled before, in whichever clone, is not compiled again.
#   compile.sh COMPILER ARGUMENT...
command -v ccache >/dev/null || exec "$@"
source=${0%/cmake/compile.sh}
# CCACHE_DEPEND: by the compiler's own list of headers, instead of preprocessing every source a second time.
# CCACHE_SLOPPINESS: as ccache asks for, where headers are precompiled.
CCACHE_BASEDIR=$source CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1 CCACHE_SLOPPINESS=pch_defines,time_macros exec ccache "$@"
