#!/usr/bin/env bash
# Nsight Systems for the tests, unpacked from Debian's non-free packages; nothing is installed
# system-wide but two small libraries. Profiles what runs on the CPU (NVTX), exports SQLite.
# Usage: nsight.sh [FOLDER]     then FOLDER/bin/nsys --version
set -euo pipefail
folder=${1:-/opt/nsight}
if [ -x "$folder/bin/nsys" ]; then exec "$folder/bin/nsys" --version; fi
work=$(mktemp -d /var/tmp/nsight.XXXXXX)
trap 'rm -rf "$work"' EXIT
# the archive that this machine already uses, with the component that holds the package
archive=$(awk '/^URIs:/{print $2; exit}' /etc/apt/sources.list.d/debian.sources)
mkdir -p "$work/lists/partial" "$work/deb" "$work/new/bin"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive trixie non-free" \
  >"$work/sources.list"
apt=(apt-get -qq -o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=-
  -o "Dir::State::Lists=$work/lists")
"${apt[@]}" update
(cd "$work/deb" && "${apt[@]}" download nsight-systems nsight-systems-target 2>/dev/null)
for package in "$work"/deb/*.deb; do dpkg -x "$package" "$work/root"; done
cp -a "$work"/root/usr/lib/x86_64-linux-gnu/nsight-systems/target-linux-x64 "$work/new/"
cp -a "$work"/root/usr/lib/nsight-systems/host-linux-x64 "$work/new/"
(apt-get -qq update && apt-get -qq install -y libssh-4 libpfm4) >/dev/null
ln -sf /usr/lib/x86_64-linux-gnu/libssh.so.4 "$work/new/host-linux-x64/libssh.so"
# `nsys stats` and `nsys recipe` look for these two places
mkdir -p "$work/new/host-linux-x64/python/lib" \
  "$work/new/target-linux-x64/python/packages/nsys_recipe/third_party"
cp "$work"/new/target-linux-x64/python/lib/*.py "$work/new/host-linux-x64/python/lib/"
ln -sfn ../target-linux-x64/nsys "$work/new/bin/nsys"
mkdir -p "$(dirname "$folder")"
mv "$work/new" "$folder"
"$folder/bin/nsys" --version
