#!/usr/bin/env bash
# Packs the libraries that the build finds on a Debian machine into .device/deps.tar.xz, so that a bare machine without
# network can configure the same tree:   scripts/pack_device_deps.sh && OCTAVO_DEPS=.device scripts/device_run.sh build
# Nothing is downloaded; what a package does not offer here is left out with one line. About 6 MiB.
set -euo pipefail
cd "$(dirname "$0")/.."

out=.device
packages=(libfmt-dev libfmt9 libgtest-dev libgmock-dev nlohmann-json3-dev libcli11-dev zlib1g-dev zlib1g libpng-dev libpng16-16
          libpcre2-dev libpcre2-8-0 libutf8proc-dev libutf8proc2 libopenblas-pthread-dev libopenblas0-pthread libgfortran5 libquadmath0)
arch=$(dpkg-architecture -qDEB_HOST_MULTIARCH 2>/dev/null || gcc -print-multiarch)
# Links that Debian keeps outside the packages (alternatives): copied as what they point to.
loose=("usr/lib/$arch/libopenblas.so" "usr/lib/$arch/libopenblas.so.0" "usr/include/$arch/cblas.h" "usr/include/$arch/openblas_config.h")

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
for package in "${packages[@]}"; do
  if ! dpkg-query -s "$package" >/dev/null 2>&1; then
    echo "pack: $package is not installed here; left out" >&2
    continue
  fi
  # Headers, shared libraries, the test library's archives and CMake's descriptions; no man pages, no other archives
  # (libopenblas.a alone is 58 MB), no LAPACK of the BLAS package.
  dpkg -L "$package" | grep -E "^(/usr)?/(include|lib|share/cmake)/" | grep -vE '/(libopenblas[^/]*|lib(z|png16|fmt|pcre2[^/]*|utf8proc|blas|lapack))\.a$|/openblas-pthread/lib(blas|lapack)|pcre2-(16|32|posix)|/lapack[a-z_]*\.h$' |
    while read -r path; do
      [ -f "$path" ] || [ -L "$path" ] || continue
      [ -d "$path" ] && continue
      target="$root/usr${path#/usr}"
      mkdir -p "$(dirname "$target")"
      cp -P --preserve=mode "$path" "$target"
    done
done
for path in "${loose[@]}"; do
  [ -e "/$path" ] || continue
  mkdir -p "$root/$(dirname "$path")"
  rm -f "$root/$path"
  real=$(readlink -f "/$path")
  if [ -e "$root$real" ]; then
    ln -s "$(realpath -m --relative-to="$root/$(dirname "$path")" "$root$real")" "$root/$path"
  else
    cp -L "/$path" "$root/$path"
  fi
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
