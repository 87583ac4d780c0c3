#!/usr/bin/env bash
# uninstall.sh PREFIX: takes away what an installation has listed in PREFIX/share/longshore/installed (DESTDIR holds here, too),
# and the folders that it made, if nothing else is in them.
set -u
fail() { echo "uninstall: $*; nothing was removed" >&2; exit 1; }
[[ -n ${1:-} ]] || fail 'PREFIX is empty: name a folder'
prefix=$(realpath -ms -- "$1")
root=${DESTDIR:-}${prefix%/}
list=$root/share/longshore/installed

[[ -f $list ]] || fail "there is no $list: Longshore was not installed with PREFIX=$prefix"
mapfile -t names <"$list"
for name in "${names[@]}"; do
    [[ $name != /* && /$name/ != */../* ]] || fail "$list names $name, which is not below $root"
    folder=$(dirname "$root/$name")
    [[ ! -d $folder || -w $folder ]] || fail "$folder cannot be written: use sudo"
done

removed=0
for name in "${names[@]}"; do
    [[ $name != */ && (-e $root/$name || -L $root/$name) ]] || continue
    rm -f -- "$root/$name" && removed=$((removed + 1))
done
# Inner folders come behind outer ones in the list.
for ((i = ${#names[@]} - 1; i >= 0; --i)); do
    [[ ${names[i]} != */ ]] || rmdir -- "$(realpath -s "$root/${names[i]}")" 2>/dev/null  # "./" is the prefix itself
done
echo "uninstall: $removed files removed from $root"
