# Shortcuts: each target also installs and builds what it needs, on a fresh Debian 12 too.
#
#   make demo      translate a sentence and show its attention
#   make test      build and run the tests, those of the Python package too where PyPI can be reached
#   make build     the command, build/release/heed
#   make install   the library, the command and the model, under PREFIX (default /usr/local)
#   make deb       Debian packages of library, headers and command, in build/deb
#   make test-python   the Python package and its tests, in a virtual environment (needs Python 3.10 with headers, and PyPI)
#   make wheel     the Python package as dist/heed-*.whl, with all libraries inside (needs the same)
#   make asan      the tests under the address and undefined-behavior sanitizers
#   make tsan      the tests of threads, kernels, shared models and the server under the thread sanitizer
#   make fuzz      malformed files through every file reader, FUZZ_SECONDS (30) each; needs clang
#   make arm64     build for 64-bit ARM with a cross compiler, and run tests under emulation
#   make check     include direction, public headers, a test for every source, the links of the docs and formatting, in seconds
#   make format    format every C++ file
#
# CMAKE_ARGS is passed on to cmake, e.g. make test CMAKE_ARGS=-DCMAKE_CXX_COMPILER=clang++
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build

PREFIX ?= /usr/local
CMAKE_ARGS ?=
JOBS ?= $(shell scripts/build-jobs.sh)
TEST_JOBS ?= 2
FUZZ_SECONDS ?= 30
HEED := build/release/heed
DEMO_TEXT := The black cat drinks milk.

# Progress lines, bold on a terminal.
step = @if [ -t 1 ]; then printf '\n\033[1m== %s\033[0m\n' $(1); else printf '\n== %s\n' $(1); fi
# Prints a command as a user would type it, then runs it.
show = @printf '$$ %s\n' '$(1)'; $(1)

.PHONY: demo test test-python wheel build install deb asan tsan fuzz arm64 check format deps

deps:
	$(call step,"Packages")
	@scripts/install-deps.sh $(foreach goal,$(MAKECMDGOALS),$(PACKAGES_$(goal)))
PACKAGES_deb := --deb
PACKAGES_fuzz := --clang
PACKAGES_check := --format
PACKAGES_format := --format

build: deps
	$(call step,"Build the command ($(JOBS) jobs)")
	@cmake --preset release $(CMAKE_ARGS) --log-level=WARNING
	@cmake --build --preset release --parallel $(JOBS) --target heed_command
	@echo "The command is $(HEED)"

demo: build
	@mkdir -p build/demo
	$(call step,"Translate")
	$(call show,$(HEED) translate "$(DEMO_TEXT)")
	$(call step,"Which English tokens each French token attends to")
	$(call show,$(HEED) attend "$(DEMO_TEXT)" --model models/en-fr --kind cross)
	$(call step,"The same as pictures")
	$(call show,$(HEED) attend "$(DEMO_TEXT)" --model models/en-fr --kind cross --output build/demo/attention.svg)
	$(call show,$(HEED) attend "$(DEMO_TEXT)" --model models/en-fr --kind cross --output build/demo/attention.html)
	@printf '\nOpen these in a browser:\n  %s\n  %s\n' "$(CURDIR)/build/demo/attention.svg" "$(CURDIR)/build/demo/attention.html"

test-python: build
	$(call step,"The Python package and its tests")
	@scripts/test-python.sh

wheel: deps
	$(call step,"The wheel")
	@CMAKE_ARGS="$(CMAKE_ARGS)" JOBS=$(JOBS) scripts/wheel.sh

test: deps
	$(call step,"Build everything ($(JOBS) jobs)")
	@cmake --preset release $(CMAKE_ARGS) --log-level=WARNING
	@cmake --build --preset release --parallel $(JOBS)
	$(call step,"Test")
	@scripts/run-tests.sh release -j $(TEST_JOBS)
	$(call step,"Test the Python package")
	@scripts/test-python.sh || [ $$? -eq 77 ]

asan: deps
	$(call step,"Build everything with sanitizers ($(JOBS) jobs)")
	@cmake --preset asan $(CMAKE_ARGS) --log-level=WARNING
	@cmake --build --preset asan --parallel $(JOBS)
	$(call step,"Test with sanitizers")
	@scripts/run-tests.sh asan -j $(TEST_JOBS)

tsan: deps
	$(call step,"Build what shares memory among threads with the thread sanitizer ($(JOBS) jobs)")
	@cmake --preset tsan $(CMAKE_ARGS) --log-level=WARNING
	@cmake --build --preset tsan --parallel $(JOBS) --target heed_core_test heed_kernels_test heed_nn_test heed_models_test heed_open_test heed_server_test heed_serve_test heed_explore_test
	$(call step,"Test with the thread sanitizer")
	@scripts/run-tests.sh tsan -j $(TEST_JOBS)

fuzz: deps
	$(call step,"Build the fuzzers ($(JOBS) jobs)")
	@cmake --preset fuzz -DCMAKE_CXX_COMPILER="$$(command -v clang++-14 || command -v clang++)" $(CMAKE_ARGS) --log-level=WARNING
	@cmake --build --preset fuzz --parallel $(JOBS) --target fuzzers
	$(call step,"Fuzz every reader for $(FUZZ_SECONDS) s")
	@scripts/fuzz.sh build/fuzz $(FUZZ_SECONDS)

arm64:
	$(call step,"Build for 64-bit ARM and test under emulation")
	@CMAKE_ARGS="$(CMAKE_ARGS)" JOBS=$(JOBS) scripts/arm64.sh

install: deps
	$(call step,"Build the library and the command ($(JOBS) jobs)")
	@cmake --preset release -DCMAKE_INSTALL_PREFIX="$(abspath $(PREFIX))" $(CMAKE_ARGS) --log-level=WARNING
	@cmake --build --preset release --parallel $(JOBS) --target heed_installed
	$(call step,"Install under $(PREFIX)")
	@cmake --install build/release --prefix "$(PREFIX)"

deb: deps
	$(call step,"Build Debian packages ($(JOBS) jobs)")
	@cmake --preset deb $(CMAKE_ARGS) --log-level=WARNING
	@cmake --build --preset deb --parallel $(JOBS)
	@cd build/deb && cpack >cpack.log || { cat cpack.log; exit 1; }
	@ls build/deb/*.deb

check: deps
	@scripts/check-includes.sh
	@scripts/check-includes-test.sh
	@scripts/check-api.sh
	@scripts/modules-table.sh --check
	@scripts/check-tests.sh
	@scripts/check-docs.sh
	@scripts/check-docs-test.sh
	@scripts/check-format.sh

format: deps
	@scripts/check-format.sh --fix
