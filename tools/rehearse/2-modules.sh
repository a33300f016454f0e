#!/bin/bash
# Debian's arm64 kernel has no i2c-stub, ina3221 or ina238 (CONFIG_… is not set): builds them from Debian's own
# kernel source as modules for the kernel in $W/rootfs, with a cross compiler. Result: $W/kmod/*.ko
set -eu
W=${W:-$PWD/build/rehearse}; HERE=$(cd "$(dirname "$0")" && pwd)
REL=$(cat "$W/release"); ABI=${REL%-arm64}
dpkg --print-foreign-architectures | grep -qx arm64 || { dpkg --add-architecture arm64; apt-get update -qq; }
mkdir -p "$W/kdebs" "$W/khdr" "$W/ksrc" "$W/kmod"
if [ ! -e "$W/ksrc/drivers/hwmon/ina3221.c" ]; then
  (cd "$W/kdebs" && apt-get download -q "linux-headers-$REL:arm64" "linux-headers-$ABI-common" linux-kbuild-6.1:amd64 linux-source-6.1)
  for d in "$W"/kdebs/linux-{headers,kbuild}*.deb; do dpkg-deb -x "$d" "$W/khdr"; done
  dpkg-deb --fsys-tarfile "$W"/kdebs/linux-source-6.1_*.deb | tar -xO ./usr/src/linux-source-6.1.tar.xz | xz -dc |
    tar -x -C "$W/ksrc" --strip-components=1 --wildcards '*/drivers/hwmon/ina3221.c' '*/drivers/hwmon/ina238.c' '*/drivers/i2c/i2c-stub.c'
  rm -f "$W"/kdebs/linux-source*
fi
# The headers name each other by absolute path.
sed -i "s#^include .*#include $W/khdr/usr/src/linux-headers-$ABI-common/Makefile#" "$W/khdr/usr/src/linux-headers-$REL/Makefile"
cp "$HERE"/kmod/rehearse.c "$W"/ksrc/drivers/hwmon/ina3221.c "$W"/ksrc/drivers/hwmon/ina238.c "$W"/ksrc/drivers/i2c/i2c-stub.c "$W/kmod/"
echo 'obj-m := rehearse.o ina3221.o ina238.o i2c-stub.o' > "$W/kmod/Kbuild"
nice -n 10 make -s -C "$W/khdr/usr/src/linux-headers-$REL" M="$W/kmod" ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu- \
  CC=aarch64-linux-gnu-gcc-12 KBUILD_MODPOST_WARN=1 modules
aarch64-linux-gnu-strip --strip-debug "$W"/kmod/*.ko; ls -la "$W"/kmod/*.ko
