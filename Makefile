# A thin front for CMake. Each target installs what it needs first (scripts/setup.sh).

BUILD := build
PREFIX ?= /usr/local
JOBS := $(shell nproc 2>/dev/null || echo 2)

.PHONY: all run test bench docs install gpu-test gpu-bench clean

all:
	scripts/setup.sh run
	cmake -B $(BUILD) -DCMAKE_INSTALL_PREFIX=$(PREFIX) $(CMAKE_FLAGS)
	cmake --build $(BUILD) -j $(JOBS)

# Tokens drawn from a real model's logits, on the CPU: without the minutes that CUDA kernels take to compile.
run:
	scripts/setup.sh run
	cmake -B $(BUILD)/run -DTOMBOLA_CUDA=OFF $(CMAKE_FLAGS)
	cmake --build $(BUILD)/run -j $(JOBS)
	scripts/demo.sh $(BUILD)/run/cli/tombola

# One of the tests compiles the CUDA backend; scripts/gpu_test.sh runs it.
test:
	scripts/setup.sh test
	cmake -B $(BUILD)/test -DTOMBOLA_TESTS=ON -DTOMBOLA_WERROR=ON -DTOMBOLA_CUDA=OFF $(CMAKE_FLAGS)
	cmake --build $(BUILD)/test -j $(JOBS)
	ctest --test-dir $(BUILD)/test --output-on-failure -j $(JOBS) $(CTEST_FLAGS)

# Beside the peers; writes bench/results/cpu.json.
bench:
	scripts/setup.sh bench
	scripts/bench.sh

# The Python package's reference, out of its docstrings: build/docs/python/index.html.
docs:
	scripts/setup.sh docs
	tests/python/install.sh . $(BUILD)/docs/environment
	$(BUILD)/docs/environment/bin/pdoc --docformat numpy --output-directory $(BUILD)/docs/python tombola

install: all
	cmake --install $(BUILD) --prefix $(PREFIX)

# On a machine with an NVIDIA GPU.
gpu-test:
	scripts/gpu_test.sh

gpu-bench:
	scripts/gpu_bench.sh

clean:
	rm -rf $(BUILD)
