# The front door. Every target does its own set-up, so each works on a fresh machine.
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test test-all stress bench build deb docs everything setup mnist clean

JOBS ?= $(shell nproc)

# $(call check,PRESET,FOLDER,FLAGS): builds PRESET in FOLDER and runs its tests.
define check
cmake --preset $(1) -B $(2) $(3)
cmake --build $(2) --parallel $(JOBS)
ctest --test-dir $(2) --output-on-failure --no-tests=error --parallel $(JOBS)
endef

help:
	@echo 'signvote: training over slow links between unequal machines, with a bit per parameter'
	@echo
	@echo '  make demo      train mode 4 on MNIST by majority, IT-signSGD and our defaults; draw the accuracy'
	@echo '  make test      all tests, those of the library under sanitizers, and a minute of fuzzing'
	@echo '  make test-all  the same; then long chaos (over 50 kills), ten minutes of attacks, a model of 10^8'
	@echo '                 parameters, the whole program under the address sanitizer, the Debian packages, the'
	@echo '                 wheel with the newest PyTorch, event files in the newest TensorBoard, and make test'
	@echo '                 on a bare Debian (as root)'
	@echo '  make stress    every test 20 times beside six busy loops, and a report: hours; a part of it with'
	@echo '                 STRESS_TESTS=REGEX, STRESS_REPEAT=N, STRESS_BUSY=N or STRESS_JOBS=N before it'
	@echo '  make bench     every kernel against its limit, rounds against PyTorch and NumPy; BENCH=--help'
	@echo '  make build     build/signvote, the program'
	@echo '  make deb       Debian packages in build/packages: signvote, libsignvote-dev, python3-signvote'
	@echo '  make docs      docs/reference, from the program'
	@echo '  make setup     install the missing packages of packages.txt, of all its groups'
	@echo '  make clean     delete what was built; runs and data sets stay'
	@echo
	@echo 'Each installs what it needs first: a bare Debian 12 with make and git is enough.'
	@echo 'JOBS=N sets how many files are compiled at once ($(JOBS)); each may take 2 GB of memory.'

demo: mnist
	build/signvote reproduce figure1 --dataset mnist --batch-modes 4 --methods mv,it,signvote \
	  --rounds 300 --out runs/demo

test: everything mnist
	ctest --preset release --no-tests=error
	$(call check,dev,build-dev-library,-DSIGNVOTE_TOOL=OFF -DSIGNVOTE_GRPC=ON -DSIGNVOTE_MPI=ON)
	$(call check,tsan,build-tsan-library,-DSIGNVOTE_TOOL=OFF -DSIGNVOTE_GRPC=ON)
	$(call check,fuzz,build-fuzz)
	@tests/skipped.py build build-dev-library build-tsan-library build-fuzz

test-all: test
	SIGNVOTE_CHAOS=long ctest --preset release --no-tests=error -R 'cli/chaos|cli/attacks|engine/desk$$'
	$(call check,dev,build-dev)
	$(MAKE) deb
	tests/clean_root.sh tests/package/try_packages.sh build/packages/*.deb || test $$? = 77
	scripts/test_wheel || test $$? = 77  # the code of a test that was skipped
	scripts/test_tensorboard || test $$? = 77
	tests/clean_root.sh || test $$? = 77
	@tests/skipped.py build build-dev

stress: everything mnist
	tests/stress.py build

bench: mnist
	@scripts/setup bench
	cmake --build build --parallel $(JOBS) --target bench/all
	/usr/bin/python3 bench/run.py $(BENCH)

# In a new folder without the tests, which need packages that the program does not.
build:
	@scripts/setup build
	cmake --preset release $(if $(wildcard build/CMakeCache.txt),,-DSIGNVOTE_TESTS=OFF)
	cmake --build build --parallel $(JOBS) --target signvote

# The tests and benchmarks too, which take longer to compile than the program.
everything: build
	@scripts/setup test
	cmake --preset release -DSIGNVOTE_TESTS=ON
	cmake --build build --parallel $(JOBS)

deb: build
	@scripts/setup deb
	cmake --preset release
	cmake --build build --parallel $(JOBS) --target signvote signvote_python signvote_python_worker
	rm -f build/packages/*.deb  # those of other versions
	cd build && cpack

docs: build
	build/signvote-manual reference docs/reference

setup:
	@scripts/setup

mnist: build
	build/signvote data fetch mnist

clean:
	rm -rf build build-*
