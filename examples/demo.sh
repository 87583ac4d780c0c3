#!/usr/bin/env bash
# The main job, shown: stock hpcc and the FFT example, without and with Longshore, and a picture of who did what when.
# DEMO=quick runs a smaller FFT. MPI=openmpi|mpich chooses the MPI of the FFT (hpcc is Debian's, built with Open MPI).
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
out=$root/build/demo
ranks=4
mpi=${MPI:-openmpi}
size=128 repeats=5 variables=4
[[ ${DEMO:-full} == quick ]] && size=64 repeats=3
mkdir -p "$out"

longshore=$root/build/bin/longshore
say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
[[ -t 1 ]] || say() { printf '\n== %s\n' "$*"; }

# Open MPI wants to be asked twice before it runs as root or with more ranks than cores.
mpirun_openmpi=(mpirun.openmpi --oversubscribe --bind-to none -np "$ranks")
[[ $(id -u) == 0 ]] && mpirun_openmpi+=(--allow-run-as-root)
if [[ $mpi == openmpi ]]; then mpirun=("${mpirun_openmpi[@]}"); else mpirun=("mpirun.$mpi" -np "$ranks"); fi

run_hpcc() { # folder, then what to put before mpirun
    local folder=$out/$1
    shift
    rm -rf "$folder" && mkdir -p "$folder"
    cp /usr/share/doc/hpcc/examples/_hpccinf.txt "$folder/hpccinf.txt"
    (cd "$folder" && "$@" "${mpirun_openmpi[@]}" hpcc >hpcc.log 2>&1) || { tail -20 "$folder/hpcc.log"; exit 1; }
    grep -q '^Success=1' "$folder/hpccoutf.txt" || { echo "hpcc did not report Success=1, see $folder"; exit 1; }
    grep -h '^Success=' "$folder/hpccoutf.txt"
}

say "hpcc, Debian's own binary ($(command -v hpcc)), $ranks ranks, without Longshore"
run_hpcc hpcc-host
say "the same binary with Longshore"
run_hpcc hpcc-longshore "$longshore" run --stats "$out/hpcc.json" --
python3 examples/demo_report.py calls "$out/hpcc.json"

fft=("${mpirun[@]}" "$root/build/bin/fft_$mpi" --size "$size" --variables "$variables")
say "3-D FFT, $size^3, $variables variables in the pipeline, $ranks ranks, without Longshore"
"${fft[@]}" --repeats "$repeats" --json "$out/fft-host.json" >"$out/fft-host.log" || { cat "$out/fft-host.log"; exit 1; }
echo "checked: inverse(forward(x)) == x, one peak for one mode"
say "the same with Longshore"
"$longshore" run --stats "$out/fft.json" -- "${fft[@]}" --repeats "$repeats" \
    --json "$out/fft-longshore.json" >"$out/fft-longshore.log" || { cat "$out/fft-longshore.log"; exit 1; }
echo "checked: inverse(forward(x)) == x, one peak for one mode"
python3 examples/demo_report.py fft "$out/fft-host.json" "$out/fft-longshore.json" "$out/fft.json"

say "who did what when: one transform"
"$longshore" run --trace "$out/trace.json" -- "${fft[@]}" --repeats 1 >"$out/fft-trace.log" || { cat "$out/fft-trace.log"; exit 1; }
read -r from to < <(python3 examples/demo_report.py window "$out/trace.json" "$variables")
"$longshore" timeline "$out/trace.json" --from "$from" --to "$to" --text
if "$longshore" timeline "$out/trace.json" --from "$from" --to "$to" --title "3-D FFT, $size^3: one transform" \
    -o "$out/timeline.png"; then echo "picture: build/demo/timeline.png (the whole run: build/demo/trace.json)"; fi
