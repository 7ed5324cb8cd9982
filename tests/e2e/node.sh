#!/bin/sh
# The node: network, disk, a shell for the host, containerd, the images, the kubelet. Logs end in the exchange folder.
exchange=/.plimsoll-guest
. $exchange/node.env
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
say() { echo "$(cut -d' ' -f1 /proc/uptime) $*"; }
hostname "$NODE"
ip link set lo up
ip addr add 10.0.2.15/24 dev eth0
ip link set eth0 up
ip route add default via 10.0.2.2
# Whoever connects is given a shell; only the host can (qemu's user network, forwarded from the host's loopback).
busybox nc -ll -p 9999 -e /bin/sh &
mkdir -p /disk
mount /dev/vda /disk || exit 1
# The last is what the chart keeps on the host: on the shared root it would be what this machine has there.
for folder in /var/lib/containerd /var/lib/kubelet /var/log/pods /var/log/containers /opt/containerd /var/lib/plimsoll; do
    mkdir -p /disk$folder $folder
    mount --bind /disk$folder $folder
done
mount --make-rshared /var/lib/kubelet
mkdir -p /etc/cni/net.d /run/static-pods
cp $exchange/cni.conflist /etc/cni/net.d/10-pods.conflist
# In place of kube-proxy: what pods call the API server's address is the node's own, and leads there.
ip addr add 10.0.0.1/32 dev lo
echo "$API_SERVER" >/run/api-server
"$FORWARD" 10.0.0.1 443 /run/api-server &
say "disk and network ready"
# The shim is looked for on PATH.
PATH="$(dirname "$SHIM"):$PATH" "$CONTAINERD" --config $exchange/containerd.toml >$exchange/containerd.log 2>&1 &
until [ -S /run/containerd/containerd.sock ]; do sleep 0.1; done
say "containerd listens"
# A service manager would start it again, too.
while :; do
    "$KUBELET" --config=$exchange/kubelet.yaml --kubeconfig=$exchange/kubelet.kubeconfig --hostname-override="$NODE" \
        --node-ip=10.0.2.15 --root-dir=/var/lib/kubelet --v=2 >>$exchange/kubelet.log 2>&1
    say "the kubelet ended with $?"
    sleep 1
done &
for image in $IMAGES; do
    "$CTR" -n k8s.io images import --local=true "$image" || say "cannot import $image"
done
say "images imported"
touch $exchange/images
wait
