#!/usr/bin/env bash
# Starts two real llama.cpp servers with a real small model (engine.sh), bin/plimsoll in front of them, talks to it with curl and
# prints what happens. Everything listens on 127.0.0.1 and ends with this script, on Ctrl-C too.
#
#   DEMO_STAY=1   stay up after the talk, until Ctrl-C, to try requests by hand
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
mkdir -p "$root/.tmp"
logs=$(mktemp -d "$root/.tmp/demo-XXXXXX") # its own, so that two at once do no harm
start_limit=300                            # seconds: a busy machine takes its time to load a model
pids=()

fail() {
	echo "demo: $*" >&2
	exit 1
}

# finish ends what was started, by its process ID: asked first, made to after 3 s.
finish() {
	trap - EXIT INT TERM
	local pid
	for pid in "${pids[@]}"; do kill -TERM "$pid" 2>/dev/null || true; done
	for _ in $(seq 30); do
		local left=0
		for pid in "${pids[@]}"; do if kill -0 "$pid" 2>/dev/null; then left=1; fi; done
		[ "$left" -eq 0 ] && return
		sleep 0.1
	done
	for pid in "${pids[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# await URL PID LOG SECONDS: until the URL answers 200, unless the process has ended.
await() {
	for _ in $(seq $(($4 * 10))); do
		curl -fsS -o /dev/null "$1" 2>/dev/null && return
		kill -0 "$2" 2>/dev/null || { tail -n 20 "$3" >&2; fail "a process ended before it served; its log is $3"; }
		sleep 0.1
	done
	tail -n 20 "$3" >&2
	fail "$1 does not answer after $4 s"
}

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# chat_body MAX_TOKENS USER [ASSISTANT USER]...: a streaming chat request.
chat_body() {
	python3 - "$@" <<'PYTHON'
import json, sys
limit, *turns = sys.argv[1:]
messages = [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(turns)]
print(json.dumps({"model": "gemma-3-270m", "messages": messages, "max_tokens": int(limit), "temperature": 0, "stream": True,
                  "stream_options": {"include_usage": True}}))
PYTHON
}

# Prints the deltas of a stream as they come, then the usage; the whole answer goes to the file named.
show='
import json, sys
answer, usage = "", None
for line in sys.stdin:
    if not line.startswith("data: ") or line.strip() == "data: [DONE]":
        continue
    chunk = json.loads(line[6:])
    if "error" in chunk:
        sys.exit("error: " + json.dumps(chunk["error"]))
    usage = chunk.get("usage") or usage
    for choice in chunk["choices"]:
        piece = choice["delta"].get("content") or ""
        answer += piece
        print(piece, end="", flush=True)
with open(sys.argv[1], "w", newline="") as f:
    f.write(answer)
print("\n      prompt %d tokens, %d of them cached; answer %d tokens" % (usage["prompt_tokens"],
      (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0), usage["completion_tokens"]))
'

# turn NAME BODY: sends a chat, shows the answer as it streams, then the replica and the time to the first byte of the body.
turn() {
	local name=$1 body=$2
	echo "--- $name"
	printf '      '
	curl -sSN --fail-with-body "$url/v1/chat/completions" -H 'Content-Type: application/json' -d "$body" -D "$logs/$name.headers" \
		-w '%{stderr}%{time_starttransfer}' 2>"$logs/$name.seconds" | python3 -u -c "$show" "$logs/$name.answer"
	echo "      replica $(replica "$name"), first token after $(tail -n 1 "$logs/$name.seconds") s"
}

replica() { sed -n 's/^[Xx]-[Pp]limsoll-[Rr]eplica: *\([^[:space:]]*\).*/\1/p' "$logs/$1.headers"; }

[ -x "$root/bin/plimsoll" ] || fail "bin/plimsoll is missing: make build"
command -v curl >/dev/null || fail "curl is missing"
tokenizer=$("$here/engine.sh" tokenizer)

arguments=(--listen 127.0.0.1:0 --log-format json --tokenizer "$tokenizer")
for name in a b; do
	port=$(free_port)
	"$here/engine.sh" run "$port" >"$logs/llama-$name.log" 2>&1 </dev/null &
	pids+=($!)
	await "http://127.0.0.1:$port/health" $! "$logs/llama-$name.log" "$start_limit"
	echo "llama.cpp server $name: http://127.0.0.1:$port (process $!)"
	arguments+=(--replica "llamacpp=http://127.0.0.1:$port,name=$name,capacity-tokens=4096")
done

echo "logs and answers: $logs"
echo "plimsoll serve ${arguments[*]}"
"$root/bin/plimsoll" serve "${arguments[@]}" >"$logs/plimsoll.log" 2>&1 </dev/null &
pids+=($!)
url=
for _ in $(seq $((start_limit * 10))); do
	url=$(sed -n 's/.*"msg":"listening".*"url":"\([^"]*\)".*/\1/p' "$logs/plimsoll.log")
	[ -n "$url" ] && break
	kill -0 "${pids[2]}" 2>/dev/null || { tail -n 20 "$logs/plimsoll.log" >&2; fail "plimsoll ended"; }
	sleep 0.1
done
[ -n "$url" ] || fail "plimsoll does not listen; its log is $logs/plimsoll.log"
await "$url/ready" "${pids[2]}" "$logs/plimsoll.log" "$start_limit"
echo "serving on $url: $(curl -fsS "$url/v1/models" | python3 -c 'import json, sys; print(", ".join(m["id"] for m in json.load(sys.stdin)["data"]))')"

story="A Plimsoll line is the mark on a ship's hull that says how much cargo it may take. In the nineteenth century many ships were lost \
because their owners loaded them beyond what they could carry. Samuel Plimsoll, a member of Parliament, fought for years for a \
law that would stop it, and in 1876 the line became compulsory on British ships. Today every merchant ship has one, with \
marks for fresh water and salt water, for summer and for winter. What is a Plimsoll line good for?"
again="And who was Samuel Plimsoll?"
turn turn-1 "$(chat_body 40 "$story")"
turn turn-2 "$(chat_body 40 "$story" "$(cat "$logs/turn-1.answer")" "$again")"
if [ "$(replica turn-1)" = "$(replica turn-2)" ]; then
	echo "=== the second turn went back to the replica that holds the first"
else
	echo "=== the second turn went to another replica"
fi

echo "--- six chats at once"
chats=()
for i in 1 2 3 4 5 6; do
	curl -sSN --fail-with-body "$url/v1/chat/completions" -H 'Content-Type: application/json' \
		-d "$(chat_body 20 "Tell me something about the number $i.")" -D "$logs/chat-$i.headers" -o "$logs/chat-$i.sse" &
	chats+=($!)
done
for chat in "${chats[@]}"; do wait "$chat"; done
for i in 1 2 3 4 5 6; do echo "      chat $i: replica $(replica "chat-$i")"; done

if [ -n "${DEMO_STAY:-}" ]; then
	echo "=== $url stays up until Ctrl-C"
	wait "${pids[2]}"
fi
