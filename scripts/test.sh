#!/usr/bin/env bash
# test.sh quick|all DIR [PACKAGES]: runs the tests, with the programs that it builds for that in DIR. ARGS, a variable, has more
# flags for go test.
#   quick  what answers in minutes, with servers that Debian has
#   all    everything, with servers that are built from source, once; and by turns the mutants and the fuzz targets
# Its last lines say what was skipped, and what quick leaves to all.
set -euo pipefail
cd "$(dirname "$0")/.."
tier=$1 tools=$2 chosen=${3:-}
read -ra flags <<<"-vet=off -timeout 15m ${ARGS:-}"

# These share memory between goroutines that must not race; elsewhere the race detector only makes the tests slow. It needs
# cgo, which Go turns off where there is no C compiler. The drivers take turns: file and redis in the short run, the others here.
raced='runner|backends|backends/backendtest|internal/(process|daemon)(/.*)?'
if [[ $tier == quick ]]; then
	raced+='|backends/(file|redis)'
else
	raced+='|backends/(consul|etcd|kubernetes|postgres|zookeeper)(/.*)?'
fi
raced="^[^/]+/[^/]+/[^/]+/($raced)\$"

# Beside others these would show how busy the machine is, or make it too busy for the others: the whole of internal/process has
# storms of processes.
alone='/internal/torture$'
[[ $tier == quick ]] || alone='/internal/(torture|history|process)$'

# Packages whose tests start what servers.sh builds, wait for it.
built='/(backends/(etcd|consul|kubernetes)|fence/s3fence|internal/(acceptance|command|history|testserver|torture)|examples)(/|$)'

if [[ $tier == quick ]]; then
	flags+=(-short)
	scripts/servers.sh quick &
else
	scripts/servers.sh packages &
fi
scripts/retry.sh go list -deps -test ./... >/dev/null # the modules, meanwhile
wait "$!"
go -C tools/testsum build -buildvcs=false -o "$tools/testsum" .
race=()
[[ $(go env CGO_ENABLED) == 0 ]] || race=(-race)

if [[ $chosen ]]; then
	[[ $tier == quick ]] || scripts/servers.sh build
	# shellcheck disable=SC2086 # packages
	exec "$tools/testsum" "${flags[@]}" "${race[@]}" -- $chosen
fi

all=$(go list ./...)
list() { grep -E "$1" <<<"$all" | grep -Ev "$2" || true; }
never='^$'

if [[ $tier == quick ]]; then
	# shellcheck disable=SC2046 # packages
	exec "$tools/testsum" "${flags[@]}" -p 2 -- $(list "$alone" "$never") ^ "${race[@]}" $(list "$raced" "$alone") ^ $(list . "$alone|$raced")
fi

storms=$(list '/internal/process$' "$never")

status=0
go -C tools/testsum test . || status=1
if ! scripts/servers.sh built; then
	scripts/servers.sh build &
	# shellcheck disable=SC2046 # packages
	"$tools/testsum" "${flags[@]}" -p 2 -- "${race[@]}" $(list "$raced" "$alone|$built") -- $(list . "$alone|$raced|$built") || status=1
	all=$(list "$built" "$never")
	wait "$!"
fi
# shellcheck disable=SC2046 # packages
"$tools/testsum" -slowest=20 "${flags[@]}" -p 2 -- $(list "$alone" "$raced") -- "${race[@]}" $storms -- "${race[@]}" $(list "$raced" "$alone") -- $(list . "$alone|$raced") || status=1

# Each run tries another fifth of the fuzz targets, and another tenth of the mutants.
turns=${XDG_CACHE_HOME:-$HOME/.cache}/leaderrun/turn
turn=${GITHUB_RUN_NUMBER:-$(($(cat "$turns" 2>/dev/null || date +%j | sed 's/^0*//') + 1))}
echo "$turn" >"$turns"
go build -o "$tools/mutants" ./scripts/mutants
nice scripts/fuzz.sh 10s . "$turn" >"$tools/fuzz.log" 2>&1 &
fuzz=$!
"$tools/mutants" -turn "$((2 * turn))/20" >"$tools/mutants.log" 2>&1 &
half=$!
echo "mutants of turn $((turn % 10)):"
"$tools/mutants" -turn "$((2 * turn + 1))/20" || status=1
wait "$half" || status=1
tail -n +3 "$tools/mutants.log"
wait "$fuzz" || status=1
cat "$tools/fuzz.log"
exit $status
