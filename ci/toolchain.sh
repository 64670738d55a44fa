# Sourced by the gates: finds (or gets) what they need. Not a gate itself.

# A gate that exits with this code was skipped.
SKIPPED=77

skip() {
  echo "SKIPPED: $*"
  exit $SKIPPED
}

# Rust, by rustup if it is there; a C compiler to link with.
need_rust() {
  [ -f "$HOME/.cargo/env" ] && . "$HOME/.cargo/env"
  if ! command -v cargo >/dev/null; then
    echo "cargo is missing: install Rust 1.95 or newer (https://rustup.rs), then run this again" >&2
    return 1
  fi
  if ! command -v cc >/dev/null; then
    if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
      apt-get update -q && apt-get install -yq gcc libc6-dev
    else
      echo "a C compiler (cc) is missing: install gcc" >&2
      return 1
    fi
  fi
}

# What tests on the kernel use, where it can be had; they say themselves what they skip without it.
want_kernel_tools() {
  local tool missing=""
  for tool in nft:nftables ip:iproute2 ping:iputils-ping wg:wireguard-tools wireguard-go:wireguard-go; do
    command -v "${tool%:*}" >/dev/null || missing+=" ${tool#*:}"
  done
  [ -n "$missing" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 0
  # shellcheck disable=SC2086
  apt-get update -q >/dev/null && apt-get install -yq --no-install-recommends $missing >/dev/null || true
}
