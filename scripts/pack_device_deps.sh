#!/usr/bin/env bash
# Packs the libraries that the build finds on a Debian machine into .device/deps.tar.xz, so that a bare machine without
# network can configure the same tree:   scripts/pack_device_deps.sh && scripts/device_run.sh build
# Nothing is downloaded; what a package does not offer here is left out with one line. About 2 MiB.
set -euo pipefail
cd "$(dirname "$0")/.."

out=.device
packages=(libfmt-dev libfmt9 libgtest-dev libgmock-dev nlohmann-json3-dev libcli11-dev zlib1g-dev zlib1g libpng-dev libpng16-16
          libpcre2-dev libpcre2-8-0 libutf8proc-dev libutf8proc2 pkgconf pkgconf-bin libpkgconf3)

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
for package in "${packages[@]}"; do
  if ! dpkg-query -s "$package" >/dev/null 2>&1; then
    echo "pack: $package is not installed here; left out" >&2
    continue
  fi
  # Headers, shared libraries, the test library's archives, CMake's and pkg-config's descriptions; no man pages, no other archives.
  dpkg -L "$package" | { grep -E "^(/usr)?/(include|lib|share/cmake)/|/bin/pkgconf$" || true; } | { grep -vE '/(lib(z|png|png16|fmt|pcre2[^/]*|utf8proc))\.a$|pcre2-(16|32|posix)' || true; } |
    while read -r path; do
      [ -f "$path" ] || [ -L "$path" ] || continue
      [ -d "$path" ] && continue
      target="$root/usr${path#/usr}"
      mkdir -p "$(dirname "$target")"
      cp -P --preserve=mode "$path" "$target"
    done
done
# A link into the merged /lib of Debian would point outside the pack.
find "$root" -xtype l -print | while read -r broken; do
  real=$(readlink -f "${broken#"$root"}" || true)
  rm -f "$broken"
  [ -f "$real" ] && cp -L "$real" "$broken"
done
mkdir -p "$out"
find "$root" -name '*.so*' -type f -exec strip --strip-unneeded {} + 2>/dev/null || true
tar -C "$root" --owner=0 --group=0 --sort=name -cf - usr | xz -T0 -6 >"$out/deps.tar.xz"
size=$(stat -c %s "$out/deps.tar.xz")
echo "pack: $out/deps.tar.xz, $((size / 1024)) KiB"
[ "$size" -le $((10 << 20)) ] || { echo "pack: more than 10 MiB; take something out of the list" >&2; exit 1; }
