#!/usr/bin/env bash
# What Longshore is for, shown within 3 minutes: stock hpcc, unchanged and right; the FFT example, where namespaces can be made,
# on two machines with a core to spare each, and with none, and on this machine; with pictures, and a verdict in plain words.
# DEMO=quick runs a smaller FFT. MPI=openmpi|mpich chooses the MPI of the FFT (hpcc is Debian's, built with Open MPI).
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
out=$root/build/demo
hpcc_ranks=4 # what its input file asks for
mpi=${MPI:-openmpi}
spare=(--size 96 --repeats 1 --turns 5 --time 60)
machines=(--size 96 --repeats 1 --turns 5 --time 40)
here=(--size 96 --repeats 1 --turns 5 --time 25)
if [[ ${DEMO:-full} == quick ]]; then
    spare=(--size 64 --repeats 3 --turns 3 --time 20)
    machines=(--size 64 --repeats 3 --turns 3 --time 15)
    here=(--size 64 --repeats 3 --turns 3 --time 10)
fi
mkdir -p "$out"
rm -f "$out"/*.png "$out"/*.json

longshore=$root/build/bin/longshore
python=$root/build/venv/bin/python
[[ -x $python ]] || python=python3
export PYTHONDONTWRITEBYTECODE=1
say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
[[ -t 1 ]] || say() { printf '\n== %s\n' "$*"; }

# Open MPI wants to be asked twice before it runs as root or with more ranks than cores.
mpirun_hpcc=(mpirun.openmpi --oversubscribe --bind-to none -np "$hpcc_ranks")
[[ $(id -u) == 0 ]] && mpirun_hpcc+=(--allow-run-as-root)

run_hpcc() { # folder, then what to put before mpirun
    local folder=$out/$1
    shift
    rm -rf "$folder" && mkdir -p "$folder"
    cp /usr/share/doc/hpcc/examples/_hpccinf.txt "$folder/hpccinf.txt"
    (cd "$folder" && "$@" "${mpirun_hpcc[@]}" hpcc >hpcc.log 2>&1) || { tail -20 "$folder/hpcc.log"; exit 1; }
    grep -q '^Success=1' "$folder/hpccoutf.txt" || { echo "hpcc did not report Success=1, see $folder"; exit 1; }
    grep -h '^Success=' "$folder/hpccoutf.txt"
}

say "hpcc, Debian's own binary ($(command -v hpcc)), $hpcc_ranks ranks, without Longshore"
run_hpcc hpcc-host
say "the same binary with Longshore"
run_hpcc hpcc-longshore "$longshore" run --stats "$out/hpcc.json" --
"$python" examples/demo_report.py calls "$out/hpcc.json"

run_fft() { # place, its options: 77 says that it cannot be shown, and has said why
    local place=$1 status=0
    shift
    "$python" examples/demo_fft.py "$place" --mpi "$mpi" "$@" --out "$out" || status=$?
    ((status == 0 || status == 77)) || exit "$status"
    ((status == 77)) || "$python" examples/demo_report.py fft "$out/fft-$place.json"
}

say "3-D FFT on two machines with a core to spare each (namespaces of this one), without and with Longshore in turns"
run_fft spare "${spare[@]}"
say "the same with one core for the rank and its service process together, link of 1 Gb/s"
run_fft machines "${machines[@]}"
say "the same on this machine, as many ranks as cores"
run_fft here "${here[@]}"

say "verdict"
"$python" examples/demo_report.py verdict "$out/hpcc.json" "$out"/fft-{spare,machines,here}.json
for picture in spare machines here; do
    if [[ -e $out/$picture.png ]]; then echo "Picture, who did what when: build/demo/$picture.png"; fi
done
printf 'It took %d s after the build.\n' "$SECONDS"
