#!/usr/bin/env bash
# Makes one target after the other, up to the first that fails, and says at the end how long each took.
#   tests/stages.sh TITLE 'target VARIABLE=value' ...
set -u
title=$1; shift
names=() times=() status=0
for stage in "$@"; do
    begin=$SECONDS
    # shellcheck disable=SC2086  # a target and its variables
    "${MAKE:-make}" --no-print-directory $stage || status=$?
    names+=("$stage"); times+=($((SECONDS - begin)))
    [[ $status == 0 ]] || { names[-1]+=' (failed)'; break; }
done
printf '\n== %s: minutes of each stage\n' "$title"
for i in "${!names[@]}"; do
    printf '%3d:%02d  %s\n' $((times[i] / 60)) $((times[i] % 60)) "${names[i]}"
done
printf '%3d:%02d  all\n' $((SECONDS / 60)) $((SECONDS % 60))
exit "$status"
