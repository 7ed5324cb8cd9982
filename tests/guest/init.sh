#!/bin/busybox sh
# First program of the guest (in its initramfs): puts the host's root, read-only, below a writable layer, and goes there.
# Busybox only. What to do afterwards lies in the exchange folder, so that this image is the same for every run.
b=/bin/busybox
die() {
    echo "guest: cannot $1"
    echo o >/proc/sysrq-trigger
    $b sleep 60
}
$b mkdir -p /proc /host /layer /new
$b mount -t proc proc /proc
for module in /modules/*; do
    $b insmod "$module" || die "load $module"
done
# cache=loose: nothing on the host is checked again once looked up, which is what makes Python start fast here.
share=trans=virtio,version=9p2000.L,msize=1048576
$b mount -t 9p -o "$share,cache=loose,ro" host /host || die "mount the host's root"
$b mount -t tmpfs -o size=512m tmpfs /layer
$b mkdir /layer/upper /layer/work
$b mount -t overlay -o lowerdir=/host,upperdir=/layer/upper,workdir=/layer/work overlay /new || die "mount the overlay"
$b mkdir -p /new/.plimsoll-guest /new/proc /new/sys /new/dev /new/run /new/tmp
$b mount -t 9p -o "$share,cache=none" exchange /new/.plimsoll-guest || die "mount the exchange folder"
$b umount /proc
exec $b switch_root /new /bin/sh /.plimsoll-guest/start.sh
