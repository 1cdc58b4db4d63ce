#!/usr/bin/env bash
# servers.sh [debian|built|peers]: provides what the tests start, if it is missing; without a word, debian and built. It starts nothing.
#   debian  Debian's packages, where there is apt and this is root
#   built   what Debian lacks, or has in a version that loses leases: from source, into a cache folder
#   peers   what only the benchmarks start, from source
# What cannot be had it names, and the tests skip what needs it.
set -euo pipefail
cd "$(dirname "$0")/.."
servers=${XDG_CACHE_HOME:-$HOME/.cache}/leaderrun/servers # as in test/servers
postgres=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -t / -k 5 -n | tail -n 1) # Debian keeps its server out of PATH
PATH=$PATH:/usr/sbin:/sbin:$postgres
policy=/usr/sbin/policy-rc.d ours=
trap 'rm -rf ${ours:+"$policy"} ${staging:+"$staging"}' EXIT

# PROGRAM=PACKAGE; the programs of PATH.
debian=(redis-server=redis-server redis-cli=redis-tools redis-sentinel=redis-sentinel initdb=postgresql psql=postgresql-client
	pgbouncer=pgbouncer mariadbd=mariadb-server-core mariadb=mariadb-client-core java=openjdk-17-jre-headless sqlite3=sqlite3
	cron=cron pgrep=procps curl=curl ip=iproute2 nft=nftables faketime=faketime systemd-analyze=systemd rpm=rpm man=man-db
	groff=groff-base zsh=zsh fish=fish "$(go env CC)=gcc libc6-dev")
# MODULE PROGRAM=PACKAGE...: a module of tools/, and what is built from it.
built=('etcd etcd=go.etcd.io/etcd/server/v3 etcdctl=go.etcd.io/etcd/etcdctl/v3' 'consul consul=github.com/hashicorp/consul'
	'kubernetes kube-apiserver=k8s.io/kubernetes/cmd/kube-apiserver' 's3 versitygw=github.com/versity/versitygw/cmd/versitygw')
peers=('supercronic supercronic=github.com/aptible/supercronic')

install_packages() {
	local missing=() line
	for line in "${debian[@]}"; do
		# shellcheck disable=SC2206 # words
		command -v "${line%%=*}" >/dev/null || missing+=(${line#*=})
	done
	[[ -e /usr/share/java/zookeeper.jar ]] || missing+=(zookeeper)
	[[ ${#missing[@]} -gt 0 ]] || return 0
	if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
		echo "not installed: ${missing[*]} (as root on Debian they would be)" >&2
		return 0
	fi
	echo "installing ${missing[*]}" >&2
	if [[ ! -e $policy ]]; then # or the packages would start their servers, on the ports that people use
		ours=yes
		printf '#!/bin/sh\nexit 101\n' >"$policy"
		chmod +x "$policy"
	fi
	export DEBIAN_FRONTEND=noninteractive
	local apt=(apt-get -qq -y --no-install-recommends -o Acquire::Retries=3 -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0)
	# The lists may be missing or old.
	"${apt[@]}" install "${missing[@]}" >/dev/null 2>&1 </dev/null ||
		{ scripts/retry.sh "${apt[@]}" update && scripts/retry.sh "${apt[@]}" install "${missing[@]}"; } >/dev/null </dev/null ||
		echo "not installed: ${missing[*]}" >&2
	[[ ! -d /run/systemd/system ]] || # nor at the next boot
		systemctl --quiet disable redis-server redis-sentinel postgresql pgbouncer zookeeper 2>/dev/null || true
}

# build MODULE PROGRAM=PACKAGE...: each version once. Another run may do the same now, or use the old one: only whole files appear.
build() {
	local stamp program
	stamp=$(go version && find "tools/$1" -type f -print0 | sort -z | xargs -0 cat | cksum)
	[[ ! -e $servers/$1.stamp || $(<"$servers/$1.stamp") != "$stamp" ]] || return 0
	echo "building ${*:2}, once; it may take minutes" >&2
	mkdir -p "$servers"
	staging=$(mktemp -d "$servers/.build-XXXXXX")
	for program in "${@:2}"; do
		CGO_ENABLED=0 scripts/retry.sh go -C "tools/$1" build -trimpath -buildvcs=false -ldflags '-s -w' \
			-o "$staging/${program%%=*}" "${program#*=}" </dev/null || { echo "not built: $program" >&2 && return; }
	done
	echo "$stamp" >"$staging/$1.stamp"
	mv -f "$staging"/* "$servers/"
	rm -rf "$staging"
}

[[ ${1:-debian} != debian ]] || install_packages
case ${1:-built} in
debian) ;;
built) for line in "${built[@]}"; do build $line; done ;; # words
peers) for line in "${peers[@]}"; do build $line; done ;;
*) echo "servers.sh: unknown word $1" >&2 && exit 2 ;;
esac
