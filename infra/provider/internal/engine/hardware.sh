# The hardware of a machine's host: the disk under Docker's root ("disk /dev/NAME", or "device MAJOR:MINOR" where it
# is no block device) and "fuse" if a process may serve a file system. Kernels throttle whole disks only, so
# a partition is followed to its disk. Arguments: a mountinfo, /sys/dev/block, Docker's root in that
# mountinfo, and the host's /dev.
mounts=$1 blocks=$2 root=$3 devices=$4
while read -r _ _ number _ at _; do
  [ "$at" = "$root" ] || continue
  [ -e "$blocks/$number" ] || { echo "device $number"; continue; }
  disk=$(readlink -f "$blocks/$number")
  [ ! -e "$disk/partition" ] || disk=${disk%/*}
  echo "disk /dev/${disk##*/}"
done <"$mounts"
[ ! -e "$devices/fuse" ] || echo fuse
