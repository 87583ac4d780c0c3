#!/usr/bin/env bash
# install.sh PREFIX [COMPONENT]: installs what is built in build/ (DESTDIR holds here, too).
set -u
fail() { echo "install: $*; nothing was installed" >&2; exit 1; }
component=${2:-}

[[ -e build/cmake_install.cmake ]] || fail "nothing is built here: run 'make build' first"
[[ -n $1 ]] || fail 'PREFIX is empty: name a folder'
prefix=$(realpath -ms -- "$1")
[[ $prefix != *[\ :]* || $component =~ ^(dpu|doc)$ ]] || \
    fail "$prefix: LD_PRELOAD cannot hold a path with a space or a colon: choose another PREFIX"
[[ ${DESTDIR:-}$prefix != *[]\[\;\\$'\n']* ]] || \
    fail "${DESTDIR:-}$prefix: CMake takes no path with a bracket, a semicolon, a backslash or a line break: choose another one"

said=$(cmake --install build --prefix "$prefix" ${component:+--component "$component"} 2>&1 >/dev/null)
status=$?
rm -f build/install_manifest*.txt
if [[ $status != 0 ]]; then
    sed -n 's/^ *install: /install: /p' <<<"$said" | grep . || echo "$said"
    exit $status
fi >&2
echo "install: Longshore is in ${DESTDIR:-}$prefix, where share/longshore/installed lists its files"
