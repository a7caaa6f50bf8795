# A thin front of CMake, so that one word does the usual things. CMakePresets.json holds the builds themselves.
#
#   make                 release build; leaves the program at build/megalith
#   make demo            from text to generated text in two to three minutes
#   make check           installs what is missing, builds, runs every test
#                        MEGA_DEVICE=far make check: in a build whose device memory the host cannot touch
#   make check-asan      every test under the address and undefined-behaviour sanitizers
#   make check-valgrind  the unit tests under valgrind
#   make check-avx2      the tests of what is computed, with kernels held to AVX2
#   make check-shuffle   the tests of what threads compute, with pieces of work handed out in a shuffled order
#   make check-mpich     builds with MPICH in place of Open MPI and runs the tests of ranks (apt-get install mpich libmpich-dev)
#   make check-clang     builds with clang, where it is there, and runs the unit tests
#   make software-device a GPU in software for tests: build/libmega_software_cuda.so (tests/device/README.md)
#   make check-device    the tests of the software device with all seeds
#   make check-gpu       all that is to be known of this machine's GPU, in at most 45 minutes (only="PART PART": some parts)
#   make crash           1,000 kills of each command, every call failing in turn, full disks, damaged files (kills=N faults=N damages=N)
#   make mutants         plants mistakes in a copy of the tree, one after the other: a test must notice each (only=PATTERN)
#   make fuzz            runs each fuzzer for a while: seconds=60 only=PATTERN (needs clang and libclang-rt-14-dev)
#   make bench           measures (only=GROUP: a part); bench/README.md
#   make install         prefix=/usr/local DESTDIR=
#   make clang debug     other builds, in build-clang and build-debug
#   make format tidy clean

prefix ?= /usr/local
# The tests of a run under valgrind or sanitizers are chosen by a pattern of names: make check-asan only=tokenizer, or
# (sanitizers) left out by one: make check-asan but=ranks
only ?=
but ?=
is_far := $(filter far,$(MEGA_DEVICE))
$(if $(filter-out far,$(MEGA_DEVICE)),$(error MEGA_DEVICE=$(MEGA_DEVICE): expected far))

.PHONY: all demo check check-asan check-valgrind check-avx2 check-shuffle check-mpich check-clang software-device check-device check-gpu crash mutants fuzz bench install clang debug format tidy clean

all:
	@tools/build.sh release megalith

demo:
	@tools/install_packages.sh demo
	@echo "== building megalith: about two minutes on two cores, when it is done for the first time"
	@tools/build.sh release megalith
	@tools/demo.sh

check:
	@tools/install_packages.sh check
	@tools/install_packages.sh fuzz
	@tools/build.sh $(if $(is_far),far,release)
	@tools/check.sh build$(if $(is_far),-far) $(if $(only),-R '$(only)') $(if $(but),-E '$(but)')

check-asan:
	@tools/install_packages.sh check
	@tools/build.sh asan-ubsan
	@MEGA_MATRIX=$${MEGA_MATRIX:-sparse} tools/check.sh build-asan $(if $(only),-R '$(only)') $(if $(but),-E '$(but)')

check-valgrind:
	@tools/install_packages.sh check
	@tools/build.sh release
	@tools/check_valgrind.sh build '$(only)'

# The others tell of processes, files and launchers, whatever the processor computes with.
computed := ^(unit_|ops_|parity_|golden_|ranks_test_parity$$)
check-avx2:
	@tools/install_packages.sh check
	@tools/build.sh release
	@if env -u MEGA_ISA build/megalith doctor | grep -qE '^  kernels  +(portable|avx2)$$'; then \
		echo "SKIPPED: AVX2 is what this processor computes with, in make check as well"; \
	else \
		MEGA_MATRIX=$${MEGA_MATRIX:-sparse} MEGA_ISA=avx2 tools/check.sh build -R '$(or $(only),$(computed))'; \
	fi

# The same objects, linked with another team of threads (cmake/shuffled.cmake).
check-shuffle:
	@tools/install_packages.sh check
	@tools/build.sh release shuffled
	@MEGA_MATRIX=$${MEGA_MATRIX:-sparse} tools/check.sh build -C shuffled -R '^shuffled_.*$(only)'

# Both MPI libraries may be installed side by side. Another library sums and cuts alike, so the sparse matrix will do. Built are the
# programs that the scripts name.
mpich_programs = $(filter $(basename $(notdir $(wildcard tests/ranks/ranks_*.c))),$(shell for t in tests/ranks/test_*.sh; do \
	echo ranks_$$(basename $$t .sh) | grep -qE '$(or $(only),.)' && grep -ohE 'ranks_[a-z_0-9]+' $$t; done | sort -u))
check-mpich:
	@tools/install_packages.sh mpich
	@if command -v mpicc.mpich >/dev/null; then \
		tools/build.sh mpich megalith library $(mpich_programs) && \
		MEGA_MATRIX=$${MEGA_MATRIX:-sparse} tools/check.sh build-mpich -L ranks $(if $(only),-R '$(only)'); \
	else \
		echo "SKIPPED: MPICH is not there (apt-get install mpich libmpich-dev)"; \
	fi

# Another compiler finds other mistakes, whatever it optimizes: -O1 compiles in half the time. (make clang has all of it.)
check-clang:
	@if command -v clang >/dev/null; then \
		MEGA_CMAKE_OPTIONS="-DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_C_FLAGS_RELWITHDEBINFO=-O1 -DMEGA_CUDA_PACK_LEVEL=1" \
			tools/build.sh clang megalith $(addprefix unit_,$(basename $(notdir $(wildcard src/*/tests/test_*.c)))) && tools/check.sh build-clang -L unit $(if $(only),-R '$(only)'); \
	else \
		echo "SKIPPED: clang is not there (apt-get install clang)"; \
	fi

software-device:
	@tools/build.sh release software-device
	@ls -1 build/libmega_software_cuda*.so

check-device:
	@tools/install_packages.sh check
	@tools/build.sh release
	@MEGA_DEVICE_SEEDS=50 tools/check.sh build -L device $(if $(only),-R '$(only)')

# What it runs and no more: a GPU may be lent by the minute. clang compiles the kernels.
check-gpu:
	@tools/install_packages.sh check
	@tools/install_packages.sh fuzz
	@tools/build.sh release megalith device_test_kernels
	@tests/device/check_gpu.sh build build/check-gpu $(only)

kills ?= 1000
# calls failed of each kind and command beyond the first two; 0: every one
faults ?= 0
# cuts and flips of each file
damages ?= 50
crash:
	@tools/install_packages.sh build
	@tools/build.sh release megalith
	@for test in pretrain_killed tokenizer_killed preprocess_killed large_checkpoint faults disk_full damage; do \
		echo "== $$test"; \
		MEGALITH=$(CURDIR)/build/megalith MEGA_SOURCE=$(CURDIR) MEGA_KILLS=$(kills) MEGA_FAULTS=$(faults) MEGA_DAMAGES=$(damages) MEGA_SEED=$${MEGA_SEED:-$$$$} \
			bash tests/fault/test_$$test.sh || [ $$? -eq 77 ] || exit 1; \
	done

mutants:
	@tools/install_packages.sh check
	@tools/mutants.sh only='$(only)'

seconds ?= 60
fuzz:
	@tools/install_packages.sh fuzz
	@tests/fuzz/run.sh seconds=$(seconds) only='$(only)'

bench:
	@tools/build.sh release benches
	@MEGA_PEERS=$$(bench/peers/find) python3 bench/run.py $(only)

install:
	@tools/build.sh release megalith library
	@cmake --install build --prefix $(prefix)

clang debug:
	@tools/build.sh $@

format:
	@git ls-files '*.c' '*.h' | xargs clang-format -i

tidy: all
	@git ls-files 'src/*.c' | grep -v -e '/tests/' -e '_body\.c$$' | xargs clang-tidy -p build --quiet

clean:
	@rm -rf build build-asan build-clang build-debug build-far build-fuzz build-mpich build-mutants
