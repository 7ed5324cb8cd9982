#!/bin/sh
# PID 1 of the guest, on the host's root (tests/guest/init.sh brought us here): mounts what an init mounts, then runs
# node.sh; below systemd when the cgroup driver is systemd's. Settings come in the exchange folder's `node.env`.
exchange=/.plimsoll-guest
. $exchange/node.env
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs -o mode=755 tmpfs /run
mount -t cgroup2 -o nsdelegate,memory_recursiveprot cgroup2 /sys/fs/cgroup
mount --make-rshared /
cat /proc/uptime >$exchange/booted
if [ "$DRIVER" = systemd ]; then
    # Nothing of the host's own units: a target of ours that wants one service of ours.
    units=/run/systemd/system
    mkdir -p $units
    cat >$units/plimsoll.target <<UNIT
[Unit]
DefaultDependencies=no
Wants=plimsoll-node.service
UNIT
    cat >$units/plimsoll-node.service <<UNIT
[Unit]
DefaultDependencies=no
[Service]
ExecStart=/bin/sh $exchange/node.sh
StandardOutput=append:$exchange/node.log
StandardError=append:$exchange/node.log
Delegate=yes
LimitNOFILE=infinity
UNIT
    exec /lib/systemd/systemd --system --unit=plimsoll.target --log-target=console --show-status=no
fi
# As on any node: the runtime and the kubelet beside the pods, not in the root cgroup.
mkdir /sys/fs/cgroup/system.slice
(
    echo 0 >/sys/fs/cgroup/system.slice/cgroup.procs
    exec sh $exchange/node.sh
) >$exchange/node.log 2>&1 </dev/null &
while :; do
    wait # also for orphans
    sleep 1
done
