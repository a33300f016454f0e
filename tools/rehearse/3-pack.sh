#!/bin/bash
# Builds edgetrain's wheel, downloads the aarch64 wheels that it and a small torch script need, and packs $W/disk.img.
# Nothing is installed here: the guest installs the wheels itself.
set -eu
W=${W:-$PWD/build/rehearse}; HERE=$(cd "$(dirname "$0")" && pwd); SRC=$(cd "$HERE/../.." && pwd)
PLACE="$W/rootfs/opt/rehearse"; mkdir -p "$W/wheels" "$PLACE"
[ -x "$W/hostvenv/bin/pip" ] || { python3 -m venv "$W/hostvenv"; "$W/hostvenv/bin/pip" -q install setuptools wheel; }
PIP="$W/hostvenv/bin/pip --disable-pip-version-check -q"
rm -f "$W"/wheels/edgetrain-*.whl
rm -rf "$W/src-copy"; mkdir "$W/src-copy"; git -C "$SRC" archive HEAD | tar -x -C "$W/src-copy"
$PIP wheel --no-deps --no-build-isolation -w "$W/wheels" "$W/src-copy"
ARM=(--only-binary=:all: --python-version 3.11 --implementation cp --abi cp311)
for p in manylinux2014 manylinux_2_17 manylinux_2_27 manylinux_2_28; do ARM+=(--platform "${p}_aarch64"); done
$PIP download "${ARM[@]}" -d "$W/wheels" "$W"/wheels/edgetrain-*.whl Pillow
# Markers are evaluated for this machine (x86-64: CUDA packages), so torch's needs are named. 2.6.0 is 96 MB.
$PIP download "${ARM[@]}" --no-deps -d "$W/wheels" torch==2.6.0 filelock sympy==1.13.1 mpmath 'networkx<3.5' fsspec jinja2 markupsafe typing_extensions
rm -rf "$PLACE/wheels"; cp -r "$W/wheels" "$PLACE/wheels"
cp "$W/mini/bin/busybox" "$W/rootfs/bin/busybox"
mkdir -p "$PLACE/kmod"; cp "$W"/kmod/*.ko "$PLACE/kmod/"; cp "$HERE"/guest/* "$PLACE/"; chmod 755 "$PLACE"/{board,init}
echo '# R36 (release), REVISION: 4.4, GCID: 41062509, BOARD: generic, EABI: aarch64' > "$W/rootfs/etc/nv_tegra_release"
grep -q '^ada:' "$W/rootfs/etc/passwd" || chroot "$W/rootfs" /usr/sbin/useradd -m -s /bin/sh ada
rm -rf "$W"/rootfs/var/cache/apt/* "$W"/rootfs/var/lib/apt/lists/*; rm -f "$W/disk.img"
mke2fs -q -t ext4 -d "$W/rootfs" "$W/disk.img" 4G
du -sh "$W/rootfs" "$W/wheels" "$W/disk.img"
