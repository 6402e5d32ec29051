# The first process of a guest, run by its private busybox, whose own applets
# it uses and nothing of the guest's userland.
mkdir -p /proc /sys /dev /run
# The shell finds its own applets through /proc/self/exe, so this comes first.
/libexec/devbox/busybox mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount -t securityfs securityfs /sys/kernel/security
while read -r name; do insmod /libexec/devbox/modules/$name.ko; done </libexec/devbox/modules/order
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/sshd /run/devbox
hostname devbox
ip link set lo up
ip link set eth0 up
ip addr add 10.0.2.15/24 dev eth0
ip route add default via 10.0.2.2
export PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
/usr/sbin/sshd -e 2>/dev/console
# The driver's shell. It reads a file and not its standard input, so that it
# is not interactive; a shell that ended is followed by another.
while :; do
  HOME=/root USER=root setsid /libexec/devbox/busybox sh -c '
    exec </dev/hvc0 >/dev/hvc0 2>/dev/console
    stty raw -echo
    echo devbox-shell
    cd /root
    exec /libexec/devbox/busybox sh /dev/hvc0'
  sleep 1
done
