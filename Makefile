# `make run` and `make test` do everything, set-up included. They need Rust (stable), Node with npm, Python (3.9 or
# newer) with pip or venv, make and cc. The tests need Go (1.21 or newer), dpkg-deb, Chromium, PostgreSQL and Redis, too; the last three root on Debian
# gets from here.

.DELETE_ON_ERROR:
.PHONY: help run test programs dev build dist packages sdk deps browser postgresql redis postgres postgres-stop lint docs bench measurements soak cluster

# Packages are fetched while others compile.
MAKEFLAGS += --jobs=2

NPM_CI := npm ci --no-fund --no-audit --loglevel=error
# npm writes this file last, so it stands for a finished `npm ci`.
SDK_MODULES := sdk/node/node_modules/.package-lock.json
SHOWCASE_MODULES := examples/showcase/node_modules/.package-lock.json
# The newest PostgreSQL: the tests run on it, too.
POSTGRESQL_MODULES := crates/testkit/postgresql/node_modules/.package-lock.json
# The Node that everything here runs with, whichever the system has.
NODE_MODULES := crates/testkit/node/node_modules/.package-lock.json
export PATH := $(CURDIR)/crates/testkit/node/node_modules/.bin:$(PATH)
# A server of S3, which the tests ask.
S3_MODULES := crates/testkit/s3/node_modules/.package-lock.json
# Frameworks whose applications the tests run, and a site of one of them.
APPLICATION_MODULES := crates/testkit/applications/node_modules/.package-lock.json
APPLICATION_SITE := crates/testkit/applications/sveltekit/build/index.js
# An authority that speaks ACME, for tests, and a server of names for it.
PEBBLE := target/pebble/pebble
# The server of NATS for the tests of clusters.
NATS := target/nats/nats-server
# Servers of mail, which the tests have messages sent to.
MESSAGES_PYTHON := crates/testkit/messages/.venv/installed
PEER_MODULES := bench/peers/node_modules/.package-lock.json
EDITOR_MODULES := editors/vscode/node_modules/.package-lock.json
DOCS_MODULES := docs/node_modules/.package-lock.json
PYTHON ?= python3
# One at a time: apt-get does not wait for another.
APT_INSTALL := flock Makefile sh -c 'apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends "$$1" >/dev/null' apt
PIP_INSTALL := pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --require-hashes
# Virtual environments of pinned packages; this file is written last.
TEST_PYTHON := sdk/python/tests/.venv/installed
SHOWCASE_PYTHON := examples/showcase/.venv/installed
PEER_PYTHON := bench/peers/.venv/installed
EXAMPLES := $(NODE_MODULES) $(SHOWCASE_MODULES) $(SHOWCASE_PYTHON)
# The binary carries sdk/node/dist: these two are its last compiled parts.
SDK_SCRIPTS := sdk/node/dist/worker.js
SDK_ADDON := sdk/node/dist/forebay.node
# And it carries console/dist: the web console of the admin listener.
CONSOLE := console/dist/app.js

help:
	@echo 'make run     build, and serve examples/showcase (ARGS="--workers 4" passes options on)'
	@echo 'make test    fetch what the tests need, and run them all (SUITES="pool node": those with such names)'
	@echo 'make build   target/release/forebay, optimised, and what the examples need'
	@echo 'make dist    target/dist/forebay: slower to build, faster to run; what to install and to measure'
	@echo 'make packages  what users install, from target/dist/forebay or BINARY=..., in target/packages: an archive, a Debian package, npm packages, a wheel, the extension for VS Code'
	@echo '               both: TARGET=aarch64-unknown-linux-gnu or x86_64-unknown-linux-musl for another system'
	@echo 'make postgres  a PostgreSQL in the background, with data to try; target/postgres.env says where, and make run reads it. make postgres-stop ends it'
	@echo 'make lint    formatting, clippy, types, links of the documentation'
	@echo 'make docs    the documentation as a website with a search, in target/docs'
	@echo 'make bench   measure beside other servers (ARGS="--quick" for a short run)'
	@echo 'make measurements  measure again what README.md and docs/measurements.md say, in an hour and a half'
	@echo 'make cluster three machines as network namespaces, one fault after the other, and what became of each request (ARGS="--seed 7 --faults 30"); as root'
	@echo 'make soak    the long runs under faults (REQUESTS=200000: that many through killed controllers, not ten millions)'

run: dev
	@echo
	@echo 'This is a development build: `make dist` makes what is fast.'
	@echo 'Once it listens, try in another terminal (or open http://127.0.0.1:8080):'
	@echo '  curl http://127.0.0.1:8080/local                   answered from memory'
	@echo '  curl http://127.0.0.1:8080/helloworld              by a Node worker'
	@echo '  curl http://127.0.0.1:8080/bun/helloworld          the same file, by a Bun worker'
	@echo '  curl http://127.0.0.1:8080/py/helloworld           by a Flask application in a Python worker'
	@echo '  curl http://127.0.0.1:8080/echo -d hello           the body again'
	@echo '  curl "http://127.0.0.1:8080/slow?ms=500"           blocks its worker'
	@echo '  curl -N http://127.0.0.1:8080/stream               chunk by chunk'
	@echo '  curl http://127.0.0.1:8080/spin                    never returns: 504 after a second'
	@echo '  curl http://127.0.0.1:8080/crash                   its process exits: 502'
	@echo '  curl http://127.0.0.1:8080/static/style.css        a file'
	@echo '  curl http://127.0.0.1:8080/store/Person/data/1     a document, straight from the store'
	@echo '  curl http://127.0.0.1:8080/mgweb/user/1            the same, read by a handler written for mg_web'
	@echo '  curl http://127.0.0.1:8080/json/0000000000000001   a record, straight from the store'
	@echo '  curl http://127.0.0.1:8080/e1/Article/1            the same record, by a controller inside the server'
	@echo '  curl http://127.0.0.1:8080/v1/Article/1            by the same controller in a child that is sent lines of JSON'
	@echo "  curl -d '{\"userId\":\"u1\",\"date\":\"2026-11-20\",\"recharge\":150}' http://127.0.0.1:8080/workflow/promotion    a workflow of eight rules"
	@echo "  curl -d '{\"country\":\"CH\",\"weight\":5}' http://127.0.0.1:8080/workflow/shipping    a decision table"
	@echo "  curl -d @examples/workflows/benchmark1.json http://127.0.0.1:8080/execute/internal/workflow    Rengine's benchmark"
	@if test -e target/postgres.env; then \
	  echo '  curl http://127.0.0.1:8080/fortunes                one of the TechEmpower benchmarks, from PostgreSQL'; \
	else \
	  echo '  make postgres, and this again                      adds the TechEmpower benchmarks, from PostgreSQL'; \
	fi
	@echo '  curl http://127.0.0.1:8080/proxy/helloworld        by another server that it passes the request on to: itself, or FOREBAY_BEHIND'
	@echo '  curl -k https://127.0.0.1:8443/helloworld          with TLS, by a certificate that the server has made'
	@echo '  curl http://127.0.0.1:8080/docs                    these routes as an OpenAPI document; a page for browsers'
	@echo '  curl http://127.0.0.1:8081/status                  what goes on inside; the page at http://127.0.0.1:8081 shows it'
	@echo
	@test -e examples/showcase/data || target/debug/forebay store import examples/showcase/seed.ndjson --data examples/showcase/data
	@set -a; if test -e target/postgres.env; then . target/postgres.env; fi; set +a; \
	exec target/debug/forebay serve -c examples/showcase/forebay.toml --tls-dev $(ARGS)

# The test programs are compiled while what they need comes by the network.
test:
	@$(MAKE) --no-print-directory --jobs=3 programs deps browser postgresql redis
	node tests/run.mjs $(SUITES)

programs: sdk
	cargo test --workspace --tests --no-run

dev: sdk $(EXAMPLES)
	cargo build --package forebay

build: $(SDK_SCRIPTS) $(CONSOLE) $(EXAMPLES)
	cd sdk/node && PROFILE=release npm run --silent addon
	cargo build --release --package forebay

# TARGET=aarch64-unknown-linux-gnu or x86_64-unknown-linux-musl: for that system, with the compiler of .cargo/config.toml and what
# `rustup target add` adds; the addon for workers is then beside the binary instead of in the SDK.
ifdef TARGET
export CARGO_BUILD_TARGET := $(TARGET)
export FOREBAY_ADDON := $(CURDIR)/target/$(TARGET)/dist/forebay.node
endif
# An addon is loaded by a Node that has musl as a shared library. musl-gcc does not look for the unwinder of GCC, which both have.
ifneq ($(findstring musl,$(TARGET)),)
ADDON_FLAGS := CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_LINKER=musl-gcc RUSTFLAGS='-Ctarget-feature=-crt-static -Clink-arg=-L$(CURDIR)/target/$(TARGET)'
endif

dist: $(SDK_SCRIPTS) $(CONSOLE)
	$(if $(ADDON_FLAGS),mkdir -p target/$(TARGET) && ln -sf "$$(gcc -print-file-name=libgcc_s.so.1)" target/$(TARGET)/)
	cd sdk/node && PROFILE=dist $(ADDON_FLAGS) npm run --silent addon
	cargo build --profile dist --package forebay

packages: $(if $(BINARY),sdk,dist) $(NODE_MODULES) $(TEST_PYTHON)
	node deploy/packages.mjs $(or $(BINARY),target/$(TARGET)/dist/forebay) target/packages/$(TARGET)

sdk: $(SDK_SCRIPTS) $(SDK_ADDON) $(CONSOLE)

deps: $(SDK_MODULES) $(NODE_MODULES) $(POSTGRESQL_MODULES) $(S3_MODULES) $(APPLICATION_SITE) $(PEBBLE) $(NATS) $(SHOWCASE_MODULES) $(TEST_PYTHON) $(MESSAGES_PYTHON) $(SHOWCASE_PYTHON) $(EDITOR_MODULES)

# The browser with which the tests use pages and log in: one that is there, or Debian's where this user may install it.
browser:
	@test -n "$$FOREBAY_CHROMIUM" || command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
	{ test "$$(id -u)" = 0 && command -v apt-get >/dev/null && $(APT_INSTALL) chromium; } || \
	{ echo 'The tests need Chromium: install it (Debian: apt-get install chromium), or name it in FOREBAY_CHROMIUM.' >&2; exit 1; }

# The programs of a PostgreSQL: those that are there, or Debian's where this user may install them, or npm's.
# crates/testkit/src/postgres/programs.rs looks in the same places.
postgresql:
	@test -n "$$FOREBAY_POSTGRES" || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || \
	{ test "$$(id -u)" = 0 && command -v apt-get >/dev/null && $(APT_INSTALL) postgresql; } || \
	$(MAKE) --no-print-directory $(POSTGRESQL_MODULES) || \
	{ echo 'PostgreSQL is needed: install it (Debian: apt-get install postgresql), or name the folder of its programs in FOREBAY_POSTGRES.' >&2; exit 1; }

# The server of Redis for which the tests of rules look.
redis:
	@test -n "$$FOREBAY_REDIS" || command -v redis-server >/dev/null || \
	{ test "$$(id -u)" = 0 && command -v apt-get >/dev/null && $(APT_INSTALL) redis-server; } || \
	{ echo 'The tests need Redis: install it (Debian: apt-get install redis-server), or name its program in FOREBAY_REDIS.' >&2; exit 1; }

postgres: postgresql
	@cargo run --quiet --package forebay-testkit --bin forebay-postgres -- start target

postgres-stop:
	@cargo run --quiet --package forebay-testkit --bin forebay-postgres -- stop target

lint: deps sdk docs
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- --deny warnings
	cd sdk/node && npx tsc --noEmit
	cd console && npx tsc --noEmit
	cd sdk/python && tests/.venv/bin/python -m mypy --strict forebay
	@if command -v cargo-deny > /dev/null; then cargo deny check; else echo 'cargo-deny is not installed: advisories were not checked'; fi

# Fails for links that lead nowhere.
docs: $(DOCS_MODULES) $(NODE_MODULES)
	cd docs && npx vitepress build >/dev/null
	@echo 'target/docs is for any server of files; `cd docs && npx vitepress dev` shows changes as they are saved'

bench: dist $(PEER_MODULES) $(PEER_PYTHON) $(NATS)
	cargo build --profile dist --package forebay-store --example rates
	node bench/run.mjs $(ARGS)

# Renews the figures in documents; an hour and a half. A missed bar does not end it: the bars stand in the documents.
measurements: dist postgres $(PEER_MODULES) $(PEER_PYTHON)
	-target/dist/forebay bench ladder --peers --into README.md --into docs/measurements.md
	-target/dist/forebay bench sql --peers --connections 64 --rounds 4 --into examples/techempower/README.md --into docs/measurements.md
	-target/dist/forebay bench scaling --rounds 4 --into docs/guide/choose.md
	-for seed in qoper8 mgweb wabur rengine pgasync; do \
	  target/dist/forebay bench seed $$seed --rounds 4 --into examples/seeds/$$seed/README.md; \
	done

soak: REQUESTS ?= 10000000
soak: deps sdk
	FOREBAY_SOAK=1 FOREBAY_SOAK_REQUESTS=$(REQUESTS) cargo test -p forebay-store -p forebay-pool -p forebay-testkit -- --nocapture

cluster: sdk $(NODE_MODULES) $(NATS) postgresql
	cargo build --package forebay
	@test -e /usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1 || ! command -v apt-get >/dev/null || $(APT_INSTALL) libfaketime
	node tests/cluster/guide.mjs
	node tests/cluster/faults.mjs $(ARGS)

$(SDK_SCRIPTS): $(SDK_MODULES) sdk/node/tsconfig.json sdk/node/libraries.mjs $(shell find sdk/node/src -name '*.ts')
	@mkdir -p sdk/node/dist
	@find sdk/node/dist -name '*.js' -delete -o -name '*.d.ts' -delete
	cd sdk/node && npm run --silent build

$(CONSOLE): console/node_modules/.package-lock.json console/tsconfig.json $(wildcard console/src/* console/src/*/*) editors/graph/graph.mjs
	cd console && npm run --silent build

# In the mode of the tests and of `make run`. `make build` and `make dist` replace it by theirs.
$(SDK_ADDON): Cargo.lock $(shell find sdk/node/native crates/store crates/records crates/jobs -name '*.rs' -o -name Cargo.toml)
	@mkdir -p sdk/node/dist
	cd sdk/node && npm run --silent addon

%/node_modules/.package-lock.json: %/package.json %/package-lock.json
	$(NPM_CI) --prefix $*
	@touch $@

$(APPLICATION_SITE): $(NODE_MODULES) $(APPLICATION_MODULES) $(wildcard crates/testkit/applications/sveltekit/*.js* crates/testkit/applications/sveltekit/src/*.html crates/testkit/applications/sveltekit/src/routes/*)
	cd crates/testkit/applications/sveltekit && npx --no vite build --logLevel error >/dev/null
	@touch $@

# Go gets a newer Go where go.mod asks for it. Without optimisation and line tables they are built in two thirds of the time.
$(PEBBLE): crates/testkit/pebble/go.mod crates/testkit/pebble/go.sum
$(NATS): crates/testkit/nats/go.mod crates/testkit/nats/go.sum
$(PEBBLE) $(NATS):
	@{ command -v go >/dev/null && { echo go1.21; go env GOVERSION; } | sort --version-sort --check=quiet; } || \
	{ echo 'The tests need Go (1.21 or newer) to build Pebble and NATS: install it (https://go.dev/dl).' >&2; exit 1; }
	cd $(<D) && GOBIN=$(CURDIR)/$(@D) go install -ldflags='-s -w' -gcflags='all=-N -l -dwarf=false' tool
	@touch $@

# A virtual environment for the requirements.txt beside it. Where pip is installed, it installs into it from outside: Debian's Python has no
# ensurepip without another package.
%/.venv/installed: %/requirements.txt
	@rm -rf $(@D)
	@if $(PYTHON) -m pip --version >/dev/null 2>&1; then \
	  $(PYTHON) -m venv --without-pip $(@D) && \
	  $(PYTHON) -m $(PIP_INSTALL) --target "$$($(@D)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" -r $<; \
	else \
	  $(PYTHON) -m venv $(@D) && $(@D)/bin/python -m $(PIP_INSTALL) -r $<; \
	fi
	@touch $@
