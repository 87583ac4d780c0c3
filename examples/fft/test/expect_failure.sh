#!/bin/sh
# Runs a command that must end with a status other than 0, because fft's own check failed.
output=$("$@" 2>&1)
status=$?
printf '%s\nstatus %s\n' "$output" "$status"
[ "$status" -ne 0 ] && printf '%s' "$output" | grep -q 'fft: FAILED before timing'
