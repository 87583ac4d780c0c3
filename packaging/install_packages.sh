#!/usr/bin/env bash
# install_packages.sh GROUP PACKAGE...: the Debian packages of a group of the Makefile's that are missing. An MPI, which is
# written MPI=PACKAGE+PACKAGE, is installed where there is none, whichever that is. What is installed starts no service,
# now or at the next start of the machine, and leaves the system's choice of an MPI as it is.
set -u
group=$1; shift
root=${LONGSHORE_INTERNAL_TEST_ROOT:-}  # for the test, which has a system of its own
policy=$root/usr/sbin/policy-rc.d
services=(munge slurmd slurmctld)
say() { echo "deps ($group): $*"; }

packages=()
for word in "$@"; do
    if [[ $word != MPI=* ]]; then packages+=("$word")
    elif ! command -v mpicc mpicc.openmpi mpicc.mpich >/dev/null; then IFS=+ read -ra mpi <<<"${word#MPI=}"; packages+=("${mpi[@]}"); fi
done

if ! command -v dpkg-query >/dev/null; then
    say "not a Debian system; install the equivalents of: ${packages[*]}"
    say 'Fedora (untested): dnf install gcc-c++ cmake ninja-build make pkgconf python3 cli11-devel fmt-devel json-devel tomlplusplus-devel hwloc-devel' \
        'openssl-devel ucx-devel rdma-core-devel util-linux openmpi-devel'
    say 'SUSE (untested): zypper install gcc-c++ cmake ninja make pkgconf python3 cli11-devel fmt-devel nlohmann_json-devel tomlplusplus-devel hwloc-devel' \
        'libopenssl-devel libucp-devel rdma-core-devel util-linux openmpi4-devel'
    exit 0
fi

is_installed() { dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'ok installed'; }
missing=()
for package in "${packages[@]}"; do is_installed "$package" || missing+=("$package"); done
((${#missing[@]})) || { say 'all packages are there'; exit 0; }
if [[ $(id -u) != 0 && -z $root ]]; then
    command -v sudo >/dev/null || { say "missing: ${missing[*]}; install them as root" >&2; exit 1; }
    exec sudo "$0" "$group" "$@"
fi
say "installing ${missing[*]}"

chosen() { readlink -f "$(command -v "$1" 2>/dev/null)" 2>/dev/null; }
mpirun_before=$(chosen mpirun) mpicc_before=$(chosen mpicc)
services_before=()
for service in "${services[@]}"; do is_installed "$service" && services_before+=("$service"); done

# The system's own way to say that packages may start nothing: a program that answers 101. One that is there comes back.
give_back() { rm -f "$policy"; [[ ! -e $policy.longshore ]] || mv "$policy.longshore" "$policy"; }
trap give_back EXIT
trap 'exit 130' INT TERM
[[ ! -e $policy ]] || mv "$policy" "$policy.longshore"
printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod 755 "$policy" || exit 1

apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}" || exit 1

for service in "${services[@]}"; do
    if is_installed "$service" && [[ " ${services_before[*]-} " != *" $service "* ]]; then
        deb-systemd-helper disable "$service.service" >/dev/null 2>&1 && say "$service is installed, but is not started at boot"
    fi
done
# A second MPI may be the one that mpirun and mpicc are from now on.
restore() { # name, program before
    [[ -n $2 && $(chosen "$1") != "$2" ]] || return 0
    update-alternatives --set "$3" "$2" >/dev/null && say "$1 is ${2##*/} again, as before"
}
restore mpirun "$mpirun_before" mpirun
restore mpicc "$mpicc_before" mpi
