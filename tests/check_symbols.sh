#!/usr/bin/env bash
# The shim is a good guest: it shows only its own names, needs only the C library (a core also the process's unwinder, of
# which it must have none within), and is silent in programs that have no MPI.      check_symbols.sh BUILD_DIR
set -euo pipefail
build=${1:?usage: check_symbols.sh BUILD_DIR}
shopt -s nullglob
libraries=("$build"/lib/liblongshore*.so)
if [[ ! -e $build/lib/liblongshore.so ]]; then
    echo "check_symbols: SKIP: $build/lib/liblongshore.so is not built"
    exit 77
fi

offences=0
offend() {
    echo "check_symbols: $*"
    offences=$((offences + 1))
}

# The names of what a library defines. An absolute symbol (A) is the name of a version.
defined() {
    nm -D -P --defined-only "$1" | awk '$2 != "A" { sub(/@.*/, "", $1); print $1 }' | sort
}

source=$(dirname "$0")/../src
entries=$("${CC:-cc}" -E -P -x c -I "$source" '-DLONGSHORE_ENTRY(name)=name' "$source/mpi/entry_points.inc" |
    sed -n 's/^MPIX\{0,1\}_.*/&\nP&/p' | sort)
for library in "${libraries[@]}"; do
    name=$(basename "$library")
    # Both names of every entry, three functions, PMIx_Commit, which tells the ranks of each other, and malloc and its
    # kin; a core has one function, and its PMPI_ calls of entries do not go out to the stub, which shows those names,
    # too.
    shown=longshore_core_open
    # Write-behind: five names of its own, and names that the C library has.
    if [[ $name == liblongshore-io.so ]]; then
        libc=$(readelf -d /bin/sh | sed -n 's/.*(NEEDED).*\[\(libc\..*\)\]/\1/p')
        libc=$(ldd /bin/sh | awk -v name="$libc" '$1 == name { print $3 }')
        own=$(printf 'longshore_io_%s\n' attach board detach drain pattern)
        shown=$(comm -12 <(defined "$library") <(sort -u <(defined "$libc") <(echo "$own")))
        shown=$(sort -u <(echo "$shown") <(echo "$own"))
    fi
    if [[ $name == liblongshore.so ]]; then
        shown=$(printf '%s\n' "$entries" PMIx_Commit longshore_get_counters longshore_get_task_functions longshore_get_times longshore_set malloc calloc \
            realloc reallocarray free posix_memalign memalign aligned_alloc valloc pvalloc malloc_usable_size madvise | sort)
    else
        while read -r symbol; do
            offend "$name calls the stub's $symbol"
        done < <(nm -D -P --undefined-only "$library" | awk '{ print $1 }' | sort | comm -12 - <(echo "$entries"))
    fi
    while read -r symbol; do
        offend "$name exports $(c++filt "$symbol")"
    done < <(comm -23 <(defined "$library") <(echo "$shown"))
    while read -r symbol; do
        offend "$name does not export $symbol"
    done < <(comm -13 <(defined "$library") <(echo "$shown"))
    may='libc|libpthread|libdl|ld-linux[^.]*'
    if [[ $name != liblongshore.so && $name != liblongshore-io.so ]]; then
        may+='|libgcc_s'
        while read -r symbol; do
            offend "$name has an unwinder of its own: $symbol"
        done < <(nm -P --defined-only "$library" | awk '$1 ~ /^_Unwind_/ { print $1 }')
    fi
    while read -r needed; do
        offend "$name needs $needed"
    done < <(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -vE "^($may)\.so" || true)
done

# Service processes load these, not applications: they may need UCX, and show one name.
for library in "$build"/lib/longshore-ucx*.so; do
    [[ $(defined "$library") == longshore_network ]] ||
        offend "$(basename "$library") exports something else than longshore_network"
done

# All shared memory is without a name, so that nothing of it is left where a job was killed.
for program in "${libraries[@]}" "$build"/lib/longshore-*.so "$build"/bin/longshored*; do
    ! nm -D -P --undefined-only "$program" | grep "^shm_open" >&2 && ! grep -q /dev/shm "$program" ||
        offend "$(basename "$program") makes files in /dev/shm"
done

# $1: the library; the rest: a program without MPI.
loads_quietly() {
    local library=$1 output code=0
    shift
    output=$(LD_PRELOAD=$library "$@" 2>&1 </dev/null) || code=$?
    [[ $code == 0 ]] || offend "LD_PRELOAD=$(basename "$library") $*: exit code $code"
    [[ -z $output ]] || offend "LD_PRELOAD=$(basename "$library") $*: prints: $output"
}
loads_quietly "$build/lib/liblongshore.so" /bin/true
loads_quietly "$build/lib/liblongshore.so" bash -c true
loads_quietly "$build/lib/liblongshore.so" bash -c '(true); true | true; exec true'
[[ ! -e $build/lib/liblongshore-io.so ]] || loads_quietly "$build/lib/liblongshore-io.so" bash -c '(true); true | true; exec true'

if ((offences > 0)); then
    echo "check_symbols: $offences offences" >&2
    exit 1
fi
echo "check_symbols: ${#libraries[@]} libraries show and need only what they may"
