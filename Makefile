# `make help` says what there is. Everything here is a short form of cargo and target/release/reach.

CARGO ?= cargo
REACH := target/release/reach
# Tests that take chances take this many.
LONG_CASES ?= 20000

.DEFAULT_GOAL := help

## run: build, then show what address translation costs a C compiler, and what would help
run: setup build
	$(REACH) compare -- gcc -O2 -c examples/lz.c -o target/lz.o

## build: the reach command, the plugin that captures programs, and the library that moves code
build:
	$(CARGO) build --release --locked -p reach-cli -p reach-plugin -p reach-preload

# The fast tier: unit tests of all crates, and the small worlds, twins and laws of the simulation itself.
FAST_TESTS := buddy:: translation:: twin:: online:: linux_counts:: navarro_2002:: reservation_variants:: zhou_2023:: \
    karakostas_2015_rmm:: linux_thp:: hugetlb:: laws:: curve:: range_tlb:: fang_1999:: fang_micro::

## test-fast: unit tests, small worlds, twins and laws: 2 minutes on two cores, after the build
test-fast:
	$(CARGO) test --workspace --locked --no-fail-fast --lib --bins --test hardware
	$(CARGO) test --workspace --locked --no-fail-fast --test main -- $(FAST_TESTS)

## test: format, lints, documentation and all tests
test: setup-tests format-check lint doc
	$(CARGO) build --workspace --all-targets --profile test --locked
	$(CARGO) test --workspace --locked --no-fail-fast
	@if $(HAS_PYTHON); then scripts/test-python.sh built && scripts/build-site.sh target/debug/reach optional; \
	    else echo "neither Python package nor site were tested: that takes python3 (3.11 or newer) with its module venv"; fi

# Whether there is a Python that can make virtual environments, and have what the tests need.
HAS_PYTHON := python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null

## python: build the Python wheel, with the command inside, into target/wheels (docs/python.md)
python: build
	scripts/build-wheel.sh

## wheel: a Python wheel for glibc 2.28 (2018) and newer, to give to others; downloads the compiler of Zig
wheel:
	scripts/build-wheel.sh portable

## python-test: install the wheel in a fresh virtual environment, and run its tests
python-test: python
	scripts/test-python.sh wheel

## test-long: all tests, the slow ones too, with many more random cases
test-long: setup-tests doc fuzz-check loom miri fuzz
	$(CARGO) build --workspace --all-targets --profile test --locked
	PROPTEST_CASES=$(LONG_CASES) $(CARGO) test --workspace --locked --no-fail-fast -- --include-ignored
	$(MAKE) python-test

## bench: million references a second on named streams, beside this computer's kept rates; rows go to target/bench.jsonl
bench:
	$(CARGO) build --release --locked --bin reach-bench
	target/release/reach-bench $(BENCH)

## bench-peers: the same programs under Reach, valgrind's tools and DynamoRIO's TLB simulator, in turns
bench-peers: build
	$(CARGO) build --release --locked --bin reach-peers
	target/release/reach-peers

## lint: clippy, with warnings as errors
lint:
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

# Targets run one after the other, for MINUTES of processor time each: `make fuzz TARGETS=lackey MINUTES=60`.
MINUTES ?= 10
TARGETS ?= $(basename $(notdir $(wildcard fuzz/fuzz_targets/*.rs)))
# A single allocation stays below the budget of a file of 1 MB (docs/security.md). The process as a whole has the fuzzer's own memory.
# One input may take two seconds of processor time (fuzz/src/lib.rs); the limit here, of wall-clock time, finds what never ends.
FUZZ_LIMITS ?= -timeout=60 -malloc_limit_mb=64 -rss_limit_mb=1024 -max_len=65536

## fuzz: run each fuzz target for MINUTES minutes (10), with limits on memory and time; needs nightly Rust and cargo-fuzz
fuzz:
	$(CARGO) fuzz --version >/dev/null 2>&1 || $(CARGO) install --locked cargo-fuzz
	for target in $(TARGETS); do \
	    mkdir -p fuzz/corpus/$$target fuzz/seeds/$$target && \
	    REACH_FUZZ_SECONDS=$$(($(MINUTES) * 60)) $(CARGO) +nightly fuzz run -O $$target \
	        fuzz/corpus/$$target fuzz/seeds/$$target -- $(FUZZ_LIMITS) || exit 1; \
	done

## fuzz-check: whether the fuzz targets still compile
fuzz-check:
	RUSTFLAGS="--cfg fuzzing" $(CARGO) check --locked --manifest-path fuzz/Cargo.toml --target-dir target/fuzz

## loom: rings and locks in every order of their atomic operations
loom:
	RUSTFLAGS="--cfg loom" $(CARGO) test --locked -p reach-core --lib --target-dir target/loom loom_tests

# What Miri can run: no system calls beyond files, and no processes.
MIRI := MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-strict-provenance" $(CARGO) +nightly miri test --locked --target-dir target/miri

## miri: undefined behaviour in rings, locks, arrays and vector code (needs: rustup component add miri --toolchain nightly)
miri:
	$(MIRI) -p reach-core --lib -- ring:: lock:: shown:: page_table::words:: fold::
	$(MIRI) -p reach-hardware --lib -- array::words::

## format: rustfmt
format:
	$(CARGO) fmt --all

format-check:
	$(CARGO) fmt --all --check

## doc: the documentation of all crates, in target/doc
doc:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

## man: man pages and shell completions, in target/man and target/completions
man: build
	$(REACH) generate man target/man
	$(REACH) generate completions target/completions

## site: the documentation as a site, in target/site/html; needs Python 3.10 or newer with its module venv
site: build
	scripts/build-site.sh

## setup: install what is missing (QEMU, a C compiler); does nothing when nothing is
setup:
	scripts/setup.sh

setup-tests:
	scripts/setup.sh --tests

## qemu: build a QEMU with plugins into the cache folder, for systems that package one without (docs/qemu.md)
qemu:
	scripts/build-qemu.sh

## paper-programs: install the real programs that papers' experiments capture (docs/papers.md)
paper-programs:
	scripts/paper-programs.sh

## clean: remove everything that was built
clean:
	$(CARGO) clean

## help: this list
help:
	@sed -n 's/^## \([a-z-]*\): \(.*\)/  make \1\t\2/p' Makefile | expand -t 18

.PHONY: run build test-fast test test-long bench bench-peers lint fuzz fuzz-check loom miri format format-check doc man setup setup-tests qemu paper-programs python wheel python-test site clean help
