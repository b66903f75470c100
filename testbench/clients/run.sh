#!/usr/bin/env bash
# Starts bin/plimsoll with its embedded model on a free port, runs OpenAI's official clients for Node, Python and Go against
# it and prints one line: N passed, N failed. The clients come from their registries, at the versions pinned here.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/plimsoll/clients
logs=$root/.tmp/clients
mkdir -p "$cache" "$logs"

fail() {
	echo "test-clients: $*" >&2
	exit 1
}

for tool in node npm python3 go; do
	command -v "$tool" >/dev/null || fail "$tool is missing"
done

install_node() {
	cmp -s "$here/node/package-lock.json" "$here/node/node_modules/.lock-installed" && return
	(cd "$here/node" && npm ci --silent --no-audit --no-fund && cp package-lock.json node_modules/.lock-installed)
}

install_python() {
	venv=$cache/python-$(python3 -c 'import hashlib, sys; print(hashlib.sha256((open(sys.argv[1]).read() + sys.version).encode()).hexdigest()[:16])' "$here/python/requirements.txt")
	[ -f "$venv/installed" ] && return
	python3 -m venv --clear "$venv"
	"$venv/bin/pip" install --quiet --disable-pip-version-check --requirement "$here/python/requirements.txt"
	touch "$venv/installed"
}

server=
# stop_server ends the server and returns its exit code.
stop_server() {
	[ -n "$server" ] || return 0
	local pid=$server
	server=
	kill -TERM "$pid" 2>/dev/null || true
	wait "$pid" 2>/dev/null
}
trap 'stop_server || true' EXIT

start_server() {
	[ -x "$root/bin/plimsoll" ] || fail "bin/plimsoll is missing: make build"
	"$root/bin/plimsoll" serve --listen 127.0.0.1:0 --log-format json >"$logs/server.log" 2>&1 &
	server=$!
	for _ in $(seq 300); do
		kill -0 "$server" 2>/dev/null || { tail -n 20 "$logs/server.log" >&2; fail "the server ended"; }
		PLIMSOLL_URL=$(sed -n 's/.*"msg":"listening".*"url":"\([^"]*\)".*/\1/p' "$logs/server.log")
		[ -n "$PLIMSOLL_URL" ] && curl -fsS -o /dev/null "$PLIMSOLL_URL/ready" 2>/dev/null && export PLIMSOLL_URL && return
		sleep 0.1
	done
	tail -n 20 "$logs/server.log" >&2
	fail "the server is not ready after 30 s"
}

passed=0 failed=0
# suite NAME PASS-PATTERN FAIL-PATTERN COMMAND...: runs a client's tests and counts their result lines.
suite() {
	local name=$1 pass=$2 miss=$3 log=$logs/$1.log status=0
	shift 3
	"$@" >"$log" 2>&1 || status=$?
	local p f
	p=$(grep -cE "$pass" "$log" || true)
	f=$(grep -cE "$miss" "$log" || true)
	# A runner that fails without a failed test, or runs none, has failed.
	if [ "$f" -eq 0 ] && { [ "$status" -ne 0 ] || [ "$p" -eq 0 ]; }; then f=1; fi
	if [ "$f" -gt 0 ]; then cat "$log"; fi
	echo "test-clients: $name: $p passed, $f failed"
	passed=$((passed + p)) failed=$((failed + f))
}

node_tests() { cd "$here/node" && node --test --test-reporter=tap client.test.js; }
python_tests() { cd "$here/python" && "$venv/bin/python" -B -m unittest -v test_client; }
go_tests() { cd "$here/go" && go test -count=1 -v ./...; }

install_node
install_python
start_server
# What must read 0 when no request is left.
export PLIMSOLL_IDLE_METRICS="plimsoll_replica_booked_blocks plimsoll_replica_booked_seats plimsoll_replica_lingering_requests \
plimsoll_router_queued_requests plimsoll_tokenizer_queued_requests"
suite node '^ *ok [0-9]+' '^ *not ok [0-9]+' node_tests
suite python ' \.\.\. ok$' ' \.\.\. (FAIL|ERROR)$' python_tests
suite go '^--- PASS' '^--- FAIL' go_tests
if ! stop_server; then
	tail -n 20 "$logs/server.log"
	echo "test-clients: the server did not end well"
	failed=$((failed + 1))
fi
echo "test-clients: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
