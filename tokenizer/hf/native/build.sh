#!/usr/bin/env bash
# Makes the static library that the Go module github.com/daulet/tokenizers links with, and the link ./lib that
# tokenizer/hf finds it by. Does nothing but a few look-ups when the library is there.
#
#   TOKENIZERS_LIB=DIR   use DIR/libtokenizers.a, build nothing
#   XDG_CACHE_HOME=DIR   where the library is kept (default ~/.cache), outside the tree, so that every clone shares it
#
# The library is built once for each module version, content of Cargo.toml and Cargo.lock, and platform, in a folder of its
# own, and moved to its place whole: a build that is ended halfway leaves nothing that looks ready, and two at once are safe.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
module=github.com/daulet/tokenizers

fail() {
	echo "tokenizers-lib: $*" >&2
	exit 1
}

sha256() {
	if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi
}

link() {
	[ "$(readlink "$here/lib" 2>/dev/null || true)" = "$1" ] && return
	[ -L "$here/lib" ] || [ ! -e "$here/lib" ] || fail "$here/lib is not a link: move it away"
	ln -sfn "$1" "$here/lib"
}

build() {
	command -v cargo >/dev/null || fail "cargo is missing. Install Rust 1.82 or later (https://rustup.rs),
  or set TOKENIZERS_LIB to a folder that holds libtokenizers.a of $module $version."
	command -v cc >/dev/null || fail "a C compiler is missing (Debian: 'apt-get install build-essential')."
	scratch=$(mktemp -d "$cache/build.XXXXXX")
	trap 'rm -rf "$scratch"' EXIT
	mkdir "$scratch/src"
	cp -R "$source/." "$scratch/src"
	chmod -R u+w "$scratch/src"
	cp "$here/Cargo.toml" "$here/Cargo.lock" "$scratch/src/"
	echo "tokenizers-lib: building libtokenizers.a of $module $version, once; it takes 1 to 4 minutes" >&2
	(cd "$scratch/src" && CARGO_TARGET_DIR="$scratch/target" cargo build --release --locked --lib)
	if command -v strip >/dev/null; then
		strip -S "$scratch/target/release/libtokenizers.a"
	fi
	mkdir -p "$ready"
	mv -f "$scratch/target/release/libtokenizers.a" "$ready/libtokenizers.a"
}

if [ -n "${TOKENIZERS_LIB:-}" ]; then
	dir=$(cd "$TOKENIZERS_LIB" 2>/dev/null && pwd) || fail "TOKENIZERS_LIB=$TOKENIZERS_LIB is not a folder"
	[ -f "$dir/libtokenizers.a" ] || fail "TOKENIZERS_LIB=$TOKENIZERS_LIB holds no libtokenizers.a"
	link "$dir"
	exit
fi

cd "$here"
go mod download "$module"
read -r version source <<<"$(go list -m -f '{{.Version}} {{.Dir}}' "$module")"
lock=$(cat Cargo.toml Cargo.lock | sha256 | cut -c1-16)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/plimsoll/tokenizers
ready=$cache/$version-$lock-$(go env GOOS)-$(go env GOARCH)
mkdir -p "$cache"
if [ ! -f "$ready/libtokenizers.a" ]; then
	# The second of two builds waits for the first and then finds its library; without flock both build, and either is right.
	if command -v flock >/dev/null; then
		exec 9>"$cache/lock"
		flock 9
	fi
	[ -f "$ready/libtokenizers.a" ] || build
fi
link "$ready"
