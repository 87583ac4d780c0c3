#!/usr/bin/env bash
# longshored reads what strangers send: it is placed at random, what the linker fills in is read-only before it begins, its functions
# look whether their stack is whole, and copies into buffers whose size is known whether they fit.      check_hardened.sh LONGSHORED
set -euo pipefail
program=${1:?usage: check_hardened.sh LONGSHORED}
status=0
require() {
    grep -qE "$2" <<<"$3" || { echo "check_hardened: $program has $1"; status=1; }
}
require 'a fixed place' 'Type: +DYN' "$(readelf -hW "$program")"
require 'relocations that stay writable' 'GNU_RELRO' "$(readelf -lW "$program")"
require 'relocations that are made late' 'BIND_NOW|FLAGS.* NOW' "$(readelf -dW "$program")"
imports=$(nm -D --undefined-only "$program")
require 'no stack protector' '__stack_chk_fail' "$imports"
require 'no checked copies (_FORTIFY_SOURCE)' '__mem[a-z]+_chk|__read_chk|__recv_chk|__snprintf_chk' "$imports"
exit $status
