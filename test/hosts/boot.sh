#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The first process of a host that machines.py makes: boots in the namespaces it was started in, and ends the host when its
# standard input ends. What it needs lies in its folder: hosts, ssh_config, sshd_config, boot_id; `addresses` is a batch of `ip`.
# Says "booted" when the host can be given its network, waits for a line, and says "up" when the host can be reached by ssh.
set -eu
name=$1 folder=$2
cd /

mount --make-rprivate /
mount -t tmpfs -o mode=755 none /run
mkdir /run/sshd
mount -t tmpfs none /dev/shm
mount -t sysfs sysfs /sys
hostname "$name"
for file in hosts nsswitch.conf ssh/ssh_config; do mount --bind "$folder/$(basename $file)" "/etc/$file"; done
mount --bind "$folder/boot_id" /proc/sys/kernel/random/boot_id
if [ -d "$HOME/.ssh" ]; then mount -t tmpfs none "$HOME/.ssh"; fi
if [ -e "$HOME/.bashrc" ]; then mount --bind /dev/null "$HOME/.bashrc"; fi

echo booted
read -r _
ip -batch "$folder/addresses"

exec 3< <(exec /usr/sbin/sshd -D -e -f "$folder/sshd_config" 2>&1)
listening=0
while [ $listening -lt 4 ] && read -r line <&3; do # at two ports, by IPv4 and by IPv6
  echo "$line" >>"$folder/sshd.log"
  case $line in *"Server listening"*) listening=$((listening + 1)) ;; esac
done
cat <&3 >>"$folder/sshd.log" &
echo up
read -r _
