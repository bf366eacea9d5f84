# Index of tasks. The build itself is CMake's; each variant has its own folder build/VARIANT.

.DEFAULT_GOAL := release
VARIANTS := release debug asan ubsan tsan amx_model asan_amx_model
PREFIX ?= /usr/local
# The unit tests need cmocka: without it they are left out, unless TESTS=ON asks for them.
TESTS ?= $(shell pkg-config --exists cmocka 2> /dev/null && echo ON || echo OFF)
TARGETS := all
BUILD_FLAGS_release := -DCMAKE_BUILD_TYPE=Release
BUILD_FLAGS_debug   := -DCMAKE_BUILD_TYPE=Debug
BUILD_FLAGS_asan    := -DCMAKE_BUILD_TYPE=RelWithDebInfo -DOMMA_SANITIZE=address,undefined
BUILD_FLAGS_ubsan   := -DCMAKE_BUILD_TYPE=RelWithDebInfo -DOMMA_SANITIZE=undefined
BUILD_FLAGS_amx_model := -DCMAKE_BUILD_TYPE=Release -DOMMA_AMX_MODEL=ON
BUILD_FLAGS_asan_amx_model := $(BUILD_FLAGS_asan) -DOMMA_AMX_MODEL=ON
BUILD_FLAGS_tsan    := -DCMAKE_BUILD_TYPE=RelWithDebInfo -DOMMA_SANITIZE=thread

# ON: a compiler's warning ends the build. Off as a rule, since compilers to come warn of more.
WERROR ?= OFF

# Packages come before what is built with them.
.NOTPARALLEL:

##@ Build and install

.PHONY: help
help: ## this list
	@echo "Ommatidia: vision-language models on CPUs"
	@awk -F ':.*## ' '/^##@ /{printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2} \
	  /^##@ Build/{printf "  make %-16s %s\n", "VARIANT", "build one of: $(VARIANTS)"}' $(MAKEFILE_LIST)

.PHONY: demo
demo: TARGETS := omma
demo: packages release ## install what is missing, build, ask the demo model about three images
	@tools/run_demo.sh build/release/omma

.PHONY: install
install: release ## install the release build under PREFIX (default /usr/local)
	@cmake --install build/release --prefix $(PREFIX)

.PHONY: python
python: release ## make an importable tree of the Python packages at build/python
	@rm -rf build/python
	@cmake --install build/release --prefix build/python --component python > /dev/null
	@cp -R python/ommatidia python/vllm_ommatidia/vllm_ommatidia build/python/
	@tools/write_plugin_metadata.sh build/python
	@echo "PYTHONPATH=$(CURDIR)/build/python"

.PHONY: wheel
wheel: packages ## a Python wheel with all libraries that it needs (manylinux) in build/wheel, by auditwheel from PyPI
	@tools/make_wheel.sh build/wheel

.PHONY: deb
deb: ## Debian packages in build/deb, checked by lintian (needs debhelper, dpkg-dev, lintian)
	@tools/make_deb.sh

##@ Test

.PHONY: test
test: packages test-packages ## install what tests need, build, run all tests (some 15 minutes on two cores)
	@tools/run_tests.sh

.PHONY: test-full
test-full: packages test-packages ## the same, C tests and server also under ThreadSanitizer, minutes of fuzzing, and the runs below
	@tools/run_tests.sh --full

##@ Test longer, or with programs from elsewhere

.PHONY: test-abi
test-abi: ## compare the libraries' ABI with that of the last release (needs abigail-tools)
	@tools/test_abi.sh

.PHONY: test-aarch64
test-aarch64: ## cross-build everything for 64-bit ARM and run the C tests and the demo model under qemu at each CPU level
	@tools/test_aarch64.sh

.PHONY: test-aarch64-packages
test-aarch64-packages: ## cross-build Debian packages and the wheel for 64-bit ARM and run what is in them under qemu (needs debhelper, dpkg-dev, lintian; NumPy from PyPI)
	@tools/test_aarch64_packages.sh

.PHONY: test-amx
test-amx: packages test-packages ## test the level amx with C code in place of its instructions (needs AVX-512 with VNNI)
	@tools/test_amx.sh

.PHONY: test-oldcpu
test-oldcpu: ## test the kernels on emulated processors without AVX-512 and without AVX
	@tools/test_oldcpu.sh

.PHONY: test-clients
test-clients: release ## real clients (openai, anthropic, cohere, litellm, langchain, llama-index, llm, prometheus_client, mineru-vl-utils, one generated from /openapi.json), from PyPI into build/venv-clients
	@tools/test_clients.sh

.PHONY: test-adapters
test-adapters: python ## the Python package's adapters with langchain-core and llama-index-core, from PyPI into build/venv-adapters
	@tools/test_adapters.sh

.PHONY: test-wheel
test-wheel: packages test-packages wheel ## pip install ./python and the wheel of `make wheel` into fresh environments, with the program; the Python tests there
	@tools/test_wheel.sh
	@tools/test_wheel.sh --manylinux

.PHONY: test-vllm
test-vllm: release ## the plugin for vLLM and the encoder node compared with vLLM itself, from PyPI into build/vllm-venv (5 GB)
	@tools/test_vllm.sh

.PHONY: test-vllm-bench
test-vllm-bench: release ## omma bench serve compared with vllm bench serve, from PyPI into build/vllm-venv (5 GB)
	@tools/test_vllm_bench.sh

.PHONY: test-without
test-without: packages test-packages release ## a server built without optional libraries and without omma-bench, in build/without: what works, and what it says of the rest
	@tools/test_without.sh

.PHONY: test-docs
test-docs: release ## every block of commands in README, docs and the folders' READMEs, also those that take minutes or PyPI
	@build/venv/bin/python -m pytest -q -p no:cacheprovider tests/docs --build build/release --long

.PHONY: test-deb
test-deb: deb ## the packages of `make deb` installed in a bare root, and README's C programs built there (needs root, debootstrap)
	@tools/test_deb.sh

.PHONY: test-container
test-container: release ## the image of deploy/Containerfile built and run with buildah (needs root, buildah, debootstrap)
	@tools/test_container.sh

.PHONY: test-deploy
test-deploy: release ## the files of deploy/ with HAProxy, promtool, systemd-analyze (Debian: haproxy prometheus systemd nginx-light caddy) and Kubernetes' schemas
	@tools/test_deploy.sh

.PHONY: test-verify
test-verify: TESTS := ON
test-verify: release ## tools/verify_release.py on the golden checkpoints, and random hybrids, with transformers from PyPI in build/venv-verify (5 GB)
	@tools/test_verify.sh

.PHONY: test-ray
test-ray: release ## examples/ray_batch.py with two workers of Ray on this machine, from PyPI into build/venv-ray (0.6 GB)
	@tools/test_ray.sh

.PHONY: fuzz
fuzz: ## fuzz what reads hostile input, 10 minutes for each target (with clang: libFuzzer)
	@tools/fuzz.sh

.PHONY: bench-kernels
bench-kernels: packages test-packages release ## time every kernel of every CPU level of this machine
	@build/release/tests/test_kernels --bench --rounds 1

.PHONY: packages
packages:
	@tools/install_packages.sh build

.PHONY: test-packages
test-packages:
	@tools/install_packages.sh test

.PHONY: $(VARIANTS)
$(VARIANTS):
	@tools/check_build_folder.sh build/$@
	@cmake -S . -B build/$@ -G Ninja $(BUILD_FLAGS_$@) -DOMMA_TESTS=$(TESTS) -DCMAKE_COMPILE_WARNING_AS_ERROR=$(WERROR) > build-$@.log 2>&1 || { cat build-$@.log; rm -f build-$@.log; exit 1; }
	@rm -f build-$@.log
	@ninja -C build/$@ $(TARGETS)

##@ Work on the project

.PHONY: fixtures
fixtures: ## make the test fixtures anew (needs Python with torch, transformers, Pillow)
	python3 tools/make_fixtures.py --out tests/golden
	python3 tools/make_image_fixtures.py
	python3 tools/make_text_fixtures.py
	python3 tools/make_unicode_tables.py
	python3 tools/make_weights_fixtures.py
	python3 tools/make_config_fixtures.py

.PHONY: readme-images
readme-images: release ## make the images of README.md anew: a recorded terminal, boxes that the demo model finds, the page at / (needs Chromium)
	@tools/record_terminal.py
	@build/release/omma chat --image models/demo/images/cross.png --prompt "Where is the orange cross?" --boxes docs/images/boxes.png
	@[ -x build/venv-page/bin/python ] || { python3 -m venv build/venv-page && build/venv-page/bin/pip install -q -r tests/page/requirements.txt; }
	@build/venv-page/bin/python tools/page_image.py

.PHONY: format
format: ## bring the C sources into the common form
	clang-format -i $$(git ls-files '*.c' '*.h')

.PHONY: check
check: ## the rules that a script can check: layers, names, banned functions, headers, commit messages
	tools/check_layers.sh
	tools/check_fuzz.sh
	tools/check_readmes.sh
	tools/check_words.sh
	tools/check_json.py
	tools/make_declarations.py --check
	tools/graph.py --check
	tools/check_sizes.py
	tools/check_commits.py

.PHONY: lint
lint: ## clang's warnings and the short list of clang-tidy over src, each of them an error (needs clang-tidy)
	@tools/lint.sh

.PHONY: graph
graph: ## folders of src, which includes which, and circles
	tools/graph.py

.PHONY: clean
clean: ## remove all builds
	rm -rf build
