#!/bin/bash
# Boots $W/disk.img as an AGX Orin, serial line on the socket $W/serial.sock. Its PID 1 is guest/init.
set -eu
W=${W:-$PWD/build/rehearse}; HERE=$(cd "$(dirname "$0")" && pwd)
M="virt,gic-version=3"; COMMON=(-cpu cortex-a76 -smp 4 -m 3072 -nic none)
qemu-system-aarch64 -machine "$M,dumpdtb=$W/base.dtb" "${COMMON[@]}" -nographic >/dev/null 2>&1
# fdtoverlay wants symbols only for references into the base; there are none.
ph() { fdtget -t x "$W/base.dtb" "/cpus/cpu@$1" phandle; }
sed "s/@CPU0@/0x$(ph 0)/; s/@CPU2@/0x$(ph 2)/" "$HERE/orin-agx.dtso" | dtc -q -@ -I dts -O dtb -o "$W/orin.dtbo" -
fdtoverlay -i "$W/base.dtb" -o "$W/orin.dtb" "$W/orin.dtbo"
DTB=(-dtb "$W/orin.dtb")
exec nice -n 10 qemu-system-aarch64 -machine "$M" "${COMMON[@]}" "${DTB[@]}" -accel tcg,thread=multi \
  -kernel "$W/vmlinuz" -initrd "$W/initrd.img" \
  -append "root=/dev/vda rw console=ttyAMA0 quiet mitigations=off" \
  -drive "file=$W/disk.img,if=none,format=raw,id=d0,cache=unsafe" -device virtio-blk-pci,drive=d0 \
  -nographic -no-reboot -monitor none -serial "unix:$W/serial.sock,server=on,wait=on"
