#!/usr/bin/env bash
# What the capture tests need beside Python: Nsight Systems, a container engine with a registry,
# systemd. Installs what is missing where that is allowed (root, Debian's packages); says what
# cannot be had. Tests skip, with this reason, what is not there. Always ends with 0.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "tests/setup: not root on Debian; tests use what is installed and skip the rest"
  exit 0
fi
missing=()
command -v dockerd >/dev/null || missing+=(docker.io)
command -v docker-registry >/dev/null || missing+=(docker-registry)
[ -x /lib/systemd/systemd ] || missing+=(systemd dbus)
command -v nsenter >/dev/null || missing+=(util-linux)
if [ "${#missing[@]}" -gt 0 ]; then
  echo "tests/setup: installing ${missing[*]}"
  (apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends \
    "${missing[@]}") >/dev/null 2>&1 || echo "tests/setup: could not install ${missing[*]}"
fi
if [ ! -x "${LANESCOPE_NSYS:-/opt/nsight}/bin/nsys" ]; then
  echo "tests/setup: unpacking Nsight Systems"
  bash "$here/nsight.sh" >/dev/null 2>&1 || echo "tests/setup: could not get Nsight Systems"
fi
exit 0
