#!/bin/sh
# PID 1 of the guest on the host's root: a full cgroup v2, then the one command that the host asked for, then off.
# Copied into the exchange folder for each run (machine.py).
exchange=/.plimsoll-guest
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /run
# Not over /tmp: the repository itself may lie there.
mkdir -p /run/tmp
export TMPDIR=/run/tmp
mount -t cgroup2 cgroup2 /sys/fs/cgroup
for controller in $(cat /sys/fs/cgroup/cgroup.controllers); do
    case $controller in cpu | memory | io | pids) echo "+$controller" >/sys/fs/cgroup/cgroup.subtree_control ;; esac
done
hostname plimsoll-guest 2>/dev/null
ip link set lo up 2>/dev/null || busybox ip link set lo up 2>/dev/null
cat /proc/uptime >$exchange/booted
sh $exchange/command.sh >$exchange/output 2>&1 </dev/null
echo $? >$exchange/exit_code
# Reboot at once: qemu runs with -no-reboot and ends. The exchange folder is not cached, so nothing is left to write.
echo b >/proc/sysrq-trigger
while :; do sleep 60; done
