#!/usr/bin/env bash
# servers.sh WORD...: provides what the tests start, if it is missing. It starts nothing. What cannot be had it names, and the tests skip
# what needs it. debian stands for Debian's packages, where there is apt and this is root; another word for a module of tools/, from
# which it builds, into a cache folder, what Debian lacks, or has in a version that loses leases.
set -euo pipefail
cd "$(dirname "$0")/.."
servers=${XDG_CACHE_HOME:-$HOME/.cache}/leaderrun/servers # as in test/servers
postgres=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -t / -k 5 -n | tail -n 1) # Debian keeps its server out of PATH
PATH=$PATH:/usr/sbin:/sbin:$postgres
policy=/usr/sbin/policy-rc.d ours= staging=
trap 'rm -rf ${ours:+"$policy"} ${staging:+"$staging"}' EXIT

# PROGRAM=PACKAGE; the programs of PATH.
packages=(redis-server=redis-server redis-cli=redis-tools redis-sentinel=redis-sentinel initdb=postgresql psql=postgresql-client
	pgbouncer=pgbouncer mariadbd=mariadb-server-core mariadb=mariadb-client-core java=openjdk-17-jre-headless sqlite3=sqlite3
	cron=cron pgrep=procps curl=curl ip=iproute2 nft=nftables faketime=faketime systemd-analyze=systemd rpm=rpm man=man-db
	groff=groff-base zsh=zsh fish=fish gcc=gcc gcc=libc6-dev)

install_packages() {
	local missing=() line apt=(apt-get -qq -y --no-install-recommends -o Acquire::Retries=3 -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0)
	for line in "${packages[@]}"; do
		command -v "${line%=*}" >/dev/null || missing+=("${line#*=}")
	done
	[[ -e /usr/share/java/zookeeper.jar ]] || missing+=(zookeeper)
	[[ ${#missing[@]} -gt 0 ]] || return 0
	if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
		echo "not installed: ${missing[*]} (as root on Debian they would be)" >&2
		return
	fi
	echo "installing ${missing[*]}" >&2
	if [[ ! -e $policy ]]; then # or the packages would start their servers, on the ports that people use
		ours=yes
		printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy"
	fi
	export DEBIAN_FRONTEND=noninteractive
	"${apt[@]}" install "${missing[@]}" >/dev/null 2>&1 </dev/null || # the lists may be missing or old
		{ "${apt[@]}" update && "${apt[@]}" install "${missing[@]}"; } >/dev/null </dev/null || echo "not installed: ${missing[*]}" >&2
	[[ ! -d /run/systemd/system ]] || # nor at the next boot
		systemctl --quiet disable redis-server redis-sentinel postgresql pgbouncer zookeeper 2>/dev/null || true
}

# build MODULE: each version once. Another run may do the same now, or use the old one: only whole files appear.
build() {
	local stamp
	stamp=$(go version && find "tools/$1" -type f -print0 | sort -z | xargs -0 cat | cksum)
	[[ ! -e $servers/$1.stamp || $(<"$servers/$1.stamp") != "$stamp" ]] || return 0
	echo "building the tools of tools/$1, once; it may take minutes" >&2
	mkdir -p "$servers" && staging=$(mktemp -d "$servers/.build-XXXXXX")
	if CGO_ENABLED=0 go -C "tools/$1" build -trimpath -buildvcs=false -ldflags '-s -w' -o "$staging/" tool </dev/null; then
		[[ ! -e $staging/server ]] || mv "$staging/server" "$staging/etcd"
		echo "$stamp" >"$staging/$1.stamp"
		mv -f "$staging"/* "$servers/"
	else
		echo "not built: the tools of tools/$1" >&2
	fi
	rm -rf "$staging"
}

for word; do
	if [[ $word == debian ]]; then install_packages; else build "$word"; fi
done
