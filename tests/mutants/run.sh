#!/bin/sh
# Builds each mutant of the engine (mutants.txt) in a copy and lets the simulator look for it.
#   tests/mutants/run.sh [build dir] [first mutant [last]]
# Exit 1 if one survives 6,000 seeds and those that once found a bug, does not build, or no longer applies.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
exec python3 "$here/run.py" "${1:-build/mutants}" "${2:-1}" "${3:-999}"
