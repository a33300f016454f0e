#!/bin/bash
# Makes what boots: $W/rootfs (Debian bookworm arm64 and kernel modules), $W/vmlinuz, $W/initrd.img. Needs root.
# The kernel is unpacked, not installed: update-initramfs under qemu-user takes longer than all the rest (> 3 minutes).
set -eu
W=${W:-$PWD/build/rehearse}; mkdir -p "$W/kdebs" "$W/kimg" "$W/mini"
[ -e /proc/sys/fs/binfmt_misc/register ] || mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
[ -e /proc/sys/fs/binfmt_misc/qemu-aarch64 ] || update-binfmts --enable qemu-aarch64
dpkg --print-foreign-architectures | grep -qx arm64 || { dpkg --add-architecture arm64; apt-get update -qq; }
[ -e "$W/rootfs/usr/bin/sudo" ] || rm -rf "$W/rootfs"
[ -e "$W/rootfs/usr/bin/sudo" ] || nice -n 10 mmdebstrap --arch=arm64 --variant=apt --mode=root \
  --include=kmod,python3,python3-venv,i2c-tools,procps,sudo,passwd \
  --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/man/*' \
  bookworm "$W/rootfs"
REL=$(apt-cache depends linux-image-arm64:arm64 | sed -n 's/.*Depends: linux-image-\(6[^:]*-arm64\).*/\1/p' | head -1); REL=${KREL:-$REL}
(cd "$W/kdebs"; ls linux-image-"$REL"_*.deb >/dev/null 2>&1 || apt-get download -q "linux-image-$REL:arm64"; ls busybox-static_* >/dev/null 2>&1 || apt-get download -q busybox-static:arm64)
dpkg-deb -x "$W"/kdebs/linux-image-"$REL"_*.deb "$W/kimg"; dpkg-deb -x "$W"/kdebs/busybox-static_*.deb "$W/mini"
depmod -b "$W/kimg" "$REL"; echo "$REL" > "$W/release"; cp "$W/kimg/boot/vmlinuz-$REL" "$W/vmlinuz"
rm -rf "$W/rootfs/lib/modules"; mkdir -p "$W/rootfs/lib/modules"
# Only what the rehearsal loads, and what that needs.
for m in virtio_pci virtio_blk ext4 i2c-dev lm75 governor_simpleondemand cpufreq-dt cpufreq_ondemand; do
  modprobe -d "$W/kimg" -S "$REL" --show-depends "$m" | sed -n 's/^insmod //p'; done | awk '!seen[$0]++' > "$W/modules.list"
while read -r file; do install -D "$file" "$W/rootfs/lib/modules/${file#*/lib/modules/}"; done < "$W/modules.list"
cp "$W/kimg/lib/modules/$REL"/modules.{order,builtin,builtin.modinfo} "$W/rootfs/lib/modules/$REL/"; depmod -b "$W/rootfs" "$REL"
# A first stage of 3 MB instead of Debian's 40: busybox and the disk's drivers.
rm -rf "$W/stage1"; mkdir -p "$W/stage1"/{bin,m,new,dev,proc}; cp "$W/mini/bin/busybox" "$W/stage1/bin/"
n=10; for m in virtio_pci virtio_blk ext4; do modprobe -d "$W/kimg" -S "$REL" --show-depends "$m" | sed -n 's/^insmod //p'; done | awk '!seen[$0]++' |
  while read -r f; do cp "$f" "$W/stage1/m/$n-${f##*/}"; n=$((n+1)); done
cat > "$W/stage1/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox mount -t devtmpfs d /dev
for m in /m/*; do /bin/busybox insmod $m; done
while [ ! -b /dev/vda ]; do /bin/busybox sleep 0.1; done
/bin/busybox mount -t ext4 /dev/vda /new && exec /bin/busybox switch_root /new /opt/rehearse/init
INIT
chmod +x "$W/stage1/init"
(cd "$W/stage1" && find . | cpio -o -H newc --quiet | gzip -1) > "$W/initrd.img"
du -sh "$W/rootfs" "$W/vmlinuz" "$W/initrd.img"
