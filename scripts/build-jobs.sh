#!/usr/bin/env bash
# Prints how many compilations to run in parallel: one per processor, but no more than fit into memory at about
# 1.5 GB each; a container's memory limit is taken into account.
set -euo pipefail

jobs=$(nproc)
kib=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo 2>/dev/null || true)
limit_file=/sys/fs/cgroup/memory.max
if [ -r $limit_file ] && limit=$(cat $limit_file) && [ "$limit" != max ]; then
  limit_kib=$((limit / 1024))
  if [ -z "$kib" ] || [ $limit_kib -lt "$kib" ]; then kib=$limit_kib; fi
fi
if [ -n "$kib" ]; then
  fitting=$((kib / 1500000))
  if [ $fitting -lt "$jobs" ]; then jobs=$fitting; fi
fi
if [ "$jobs" -lt 1 ]; then jobs=1; fi
echo "$jobs"
