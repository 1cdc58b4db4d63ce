#!/usr/bin/env bash
# servers.sh [quick|packages|build|built|peers]: without a word, packages and then build.
#   quick     Debian's packages for make test
#   packages  those for make test-all
#   build     builds what Debian lacks
#   built     says by its exit code whether all of that is there
#   peers     builds what only the benchmarks start
# Provides what the tests start: real servers, a cron, network namespaces, a C compiler for the race
# detector. Only what is missing: Debian's packages as root where there is apt, and from source, into a cache
# directory, the servers that Debian lacks or has in a version that loses leases. What cannot be had it names,
# and the tests skip it. It starts nothing: tests start their own servers on ports of their own.
set -euo pipefail
cd "$(dirname "$0")/.."
shopt -s nullglob
postgres=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -t / -k 5 -n | tail -n 1) # Debian keeps its server out of PATH
PATH=$PATH:/usr/sbin:/sbin${postgres:+:$postgres}
servers=${XDG_CACHE_HOME:-$HOME/.cache}/leaderrun/servers # as in test/servers

log=$(mktemp)
policy=/usr/sbin/policy-rc.d
policy_ours=
staging=
ahead=
cleanup() {
	rm -rf "$log" ${policy_ours:+"$policy"} ${staging:+"$staging"}
	[[ -z $ahead ]] || kill "$ahead" 2>/dev/null || true
}
trap cleanup EXIT

# packages quick|packages: installs Debian's packages of the programs that are missing.
packages() {
	local missing=() unit
	need() { command -v "$1" >/dev/null || missing+=("$2"); }
	need redis-server redis-server
	need redis-cli redis-tools
	need initdb postgresql
	need psql postgresql-client
	need java openjdk-17-jre-headless
	[[ -e /usr/share/java/zookeeper.jar ]] || missing+=(zookeeper)
	need sqlite3 sqlite3
	need cron cron
	need pgrep procps
	need curl curl
	need ip iproute2
	need nft nftables
	need faketime faketime
	if [[ $1 == packages ]]; then
		need redis-sentinel redis-sentinel
		need pgbouncer pgbouncer
		need mariadbd mariadb-server-core # the server without a service
		need mariadb mariadb-client-core
		need systemd-analyze systemd
		need rpm rpm
		need man man-db
		need groff groff-base
		need zsh zsh
		need fish fish
	fi
	command -v "$(go env CC)" >/dev/null || missing+=(gcc libc6-dev)
	[[ ${#missing[@]} -gt 0 ]] || return 0

	if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
		echo "not installed: ${missing[*]} (as root on Debian they would be); tests that need them are skipped" >&2
		return 0
	fi

	# Without this the packages would start their servers, on the ports that people use.
	if [[ ! -e $policy ]]; then
		policy_ours=yes
		printf '#!/bin/sh\nexit 101\n' >"$policy"
		chmod +x "$policy"
	fi

	export DEBIAN_FRONTEND=noninteractive
	local apt=(apt-get -qq -y --no-install-recommends -o Acquire::Retries=3 -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0)
	echo "installing ${missing[*]}" >&2
	# The lists may be missing or old.
	if ! "${apt[@]}" install "${missing[@]}" >"$log" 2>&1 </dev/null; then
		if ! { scripts/retry.sh "${apt[@]}" update && scripts/retry.sh "${apt[@]}" install "${missing[@]}"; } >"$log" 2>&1 </dev/null; then
			cat "$log" >&2
			echo "not installed: ${missing[*]}; tests that need them are skipped" >&2
		fi
	fi
	for unit in redis-server redis-sentinel postgresql pgbouncer zookeeper; do # nor at the next boot
		if [[ -d /run/systemd/system && " ${missing[*]} " == *" $unit "* ]]; then
			systemctl disable --quiet "$unit" || true
		fi
	done
}

# Each line is a module of tools/, and what is built from its packages.
builds=(
	'etcd etcd=go.etcd.io/etcd/server/v3 etcdctl=go.etcd.io/etcd/etcdctl/v3'
	'consul consul=github.com/hashicorp/consul'
	'kubernetes kube-apiserver=k8s.io/kubernetes/cmd/kube-apiserver'
	's3 versitygw=github.com/versity/versitygw/cmd/versitygw'
)
peer='supercronic supercronic=github.com/aptible/supercronic'

# stamp MODULE: tells versions apart.
stamp() { go version && find "tools/$1" -type f -print0 | sort -z | xargs -0 cat | cksum; }

# built MODULE NAME=PACKAGE…: they are there, in this version.
built() {
	local module=$1 program
	shift
	for program; do
		[[ -x $servers/${program%%=*} ]] || return 1
	done
	[[ -e $servers/$module.stamp && $(<"$servers/$module.stamp") == "$(stamp "$module")" ]]
}

# download MODULE NAME=PACKAGE…: the modules that the build needs; go mod download would take all of go.mod.
download() {
	local module=$1
	shift
	scripts/retry.sh env CGO_ENABLED=0 go -C "tools/$module" list -deps "${@#*=}"
}

# download_ahead downloads for all builds, so that the network is at work while one of them is compiled.
download_ahead() {
	local line
	for line in "${builds[@]}"; do
		# shellcheck disable=SC2086 # words
		built $line || download $line || true
	done
}

# build MODULE NAME=PACKAGE…: builds programs from the module tools/MODULE, once for each version of it.
build() {
	local module=$1 names=() program
	shift
	for program; do
		names+=("${program%%=*}")
	done
	echo "building ${names[*]}, once; it may take minutes" >&2
	if ! compile "$module" "$@" >"$log" 2>&1 </dev/null; then
		echo "not built: ${names[*]} ($(tail -n 1 "$log")); tests that need what is not there are skipped" >&2
		rm -rf "$staging"
		return 0
	fi
	# Another run may do the same now, or a test may be using the old one: only whole files appear.
	stamp "$module" >"$staging/$module.stamp"
	for program in "${names[@]}" "$module.stamp"; do
		mv -f "$staging/$program" "$servers/$program"
	done
	rm -rf "$staging"
}

# compile MODULE NAME=PACKAGE…: leaves the programs in $staging. Each step says itself when it fails, because
# set -e does not hold in a condition.
compile() {
	local module=$1 program
	shift
	mkdir -p "$servers" && staging=$(mktemp -d "$servers/.build-XXXXXX") || return
	download "$module" "$@" >/dev/null || return
	for program; do
		CGO_ENABLED=0 go -C "tools/$module" build -trimpath -buildvcs=false -ldflags '-s -w' \
			-o "$staging/${program%%=*}" "${program#*=}" || return
	done
}

# build_all builds what is missing, one after the other.
build_all() {
	local line
	download_ahead >/dev/null 2>&1 </dev/null &
	ahead=$!
	for line in "${builds[@]}"; do
		# shellcheck disable=SC2086 # words
		built $line || build $line
	done
}

# all_built says whether nothing is missing.
all_built() {
	local line
	for line in "${builds[@]}"; do
		# shellcheck disable=SC2086 # words
		built $line || return 1
	done
}

case ${1:-} in
quick | packages) packages "$1" ;;
build) build_all ;;
built) all_built ;;
# shellcheck disable=SC2086 # words
peers) built $peer || build $peer ;;
'')
	packages packages
	build_all
	;;
*) echo "servers.sh: unknown word $1" >&2 && exit 2 ;;
esac
