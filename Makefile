# Every target does the set-up it needs; nothing has to be run before it.
.DEFAULT_GOAL := help
.PHONY: help setup build demo nightly-demo check test test-all test-change test-boot lint fmt bench soak clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

setup: ## install what is missing, start Docker if it is not running, build everything
	@ci/setup

build: ## agents and Terraform provider into build/
	@ci/build

demo: ## set up, run experiment mediawiki-noisy, measure the fleet planned from it, print both summaries and reports' paths
	@ci/demo

nightly-demo: ## a night of two designs in about 15 minutes, and the path of its site
	@ci/nightly-demo

check: ## of what is set up: format, lint, types and unit tests, in three minutes
	@ci/check

test: ## set up, then check, each protocol and fault with its real part, and one experiment on a fleet
	@ci/test short

test-all: ## every test: before an issue is resolved
	@ci/test all

test-change: ## test, then of the rest what changed since ci/tested touches, and a quarter of the others
	@ci/test change

test-boot: ## a host that is restarted, on a virtual machine; once a week, as root; first: ci/vm packages
	@ci/test boot

lint: ## formatting, lint and types of every language
	@ci/lint

fmt: ## format every language
	@ci/fmt

bench: ## measure speed side by side with peers; writes bench/runs/DATE.json
	@ci/bench

soak: ## ten minutes and ten million checked requests through an arbiter in trouble
	@ci/soak

clean: ## remove fleets, builds and the environment; results/ stays
	@ci/clean
