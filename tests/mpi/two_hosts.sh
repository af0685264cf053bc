#!/usr/bin/env bash
# Runs a program over two hosts: two network namespaces of this machine, which reach each other over TCP only. Exits
# with 77, "skipped", where namespaces cannot be made (they need root).
# usage: two_hosts.sh MPIRUN PROGRAM ARGUMENTS...
set -euo pipefail

a=heed-a-$$ b=heed-b-$$ va=heeda$$ vb=heedb$$
work=$(mktemp -d)
clean() {
  ip netns del "$a" 2>/dev/null || true
  ip netns del "$b" 2>/dev/null || true
  rm -rf "$work"
}
trap clean EXIT
skip() { echo "skipped: $1"; exit 77; }

command -v ip >/dev/null || skip "no ip command (iproute2)"
ip netns add "$a" 2>/dev/null || skip "network namespaces cannot be made here (they need root)"
ip netns add "$b"
ip link add "$va" netns "$a" type veth peer name "$vb" netns "$b" 2>/dev/null ||
  skip "no virtual network cards here (veth)"
ip -n "$a" addr add 10.77.0.1/24 dev "$va"
ip -n "$b" addr add 10.77.0.2/24 dev "$vb"
for end in "$a $va" "$b $vb"; do
  read -r host card <<<"$end"
  ip -n "$host" link set lo up
  ip -n "$host" link set "$card" up
done

# In the place of ssh: mpirun gives it the host's name and the command.
printf '#!/bin/sh\nshift\nexec ip netns exec %s sh -c "$*"\n' "$b" >"$work/agent"
chmod +x "$work/agent"
mpirun=$1
shift
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
ip netns exec "$a" "$mpirun" -H 10.77.0.1,10.77.0.2 -n 2 --oversubscribe --bind-to none \
  --mca plm_rsh_agent "$work/agent" --mca btl tcp,self --mca btl_tcp_if_include 10.77.0.0/24 \
  --mca oob_tcp_if_include 10.77.0.0/24 "$@"
