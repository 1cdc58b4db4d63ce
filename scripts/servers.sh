#!/usr/bin/env bash
# Installs what the tests start: real servers, a cron, network namespaces, a C compiler for the
# race detector. Only what is missing, only as root where there is apt; elsewhere it says what is missing
# and the tests skip it. It starts nothing: tests start their own servers on ports of their own.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin

missing=()
need() { command -v "$1" >/dev/null || missing+=("$2"); }
need redis-server redis-server
need redis-cli redis-tools
need redis-sentinel redis-sentinel
need cron cron
need ip iproute2
need nft nftables
need systemd-analyze systemd
command -v "$(go env CC)" >/dev/null || missing+=(gcc libc6-dev)
[[ ${#missing[@]} -gt 0 ]] || exit 0

if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
	echo "not installed: ${missing[*]} (as root on Debian they would be); tests that need them are skipped" >&2
	exit 0
fi

# Without this the packages would start their servers, on the ports that people use.
policy=/usr/sbin/policy-rc.d
log=$(mktemp)
ours=
cleanup() { rm -f "$log" ${ours:+"$policy"}; }
trap cleanup EXIT
if [[ ! -e $policy ]]; then
	ours=yes
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod +x "$policy"
fi

export DEBIAN_FRONTEND=noninteractive
apt=(apt-get -qq -y --no-install-recommends -o Acquire::Retries=3 -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0)
echo "installing ${missing[*]}" >&2
# The lists may be missing or old.
if ! "${apt[@]}" install "${missing[@]}" >"$log" 2>&1 </dev/null; then
	if ! { scripts/retry.sh "${apt[@]}" update && scripts/retry.sh "${apt[@]}" install "${missing[@]}"; } >"$log" 2>&1 </dev/null; then
		cat "$log" >&2
		echo "not installed: ${missing[*]}; tests that need them are skipped" >&2
	fi
fi
for unit in redis-server redis-sentinel; do # nor at the next boot
	if [[ -d /run/systemd/system && " ${missing[*]} " == *" $unit "* ]]; then
		systemctl disable --quiet "$unit" || true
	fi
done
