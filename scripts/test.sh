#!/usr/bin/env bash
# test.sh quick|all DIR [PACKAGES]: runs the tests, with the programs that it builds for that in DIR. ARGS, a variable, has more
# flags for go test.
#   quick  what answers in minutes, with servers that Debian has
#   all    everything, with servers that are built from source, once; fuzz targets; and by turns the mutants
# Its last lines say what was skipped, and what quick leaves to all.
set -euo pipefail
cd "$(dirname "$0")/.."
tier=$1 tools=$2 chosen=${3:-}
read -ra flags <<<"-vet=off -timeout 15m ${ARGS:-}"

# Each run of everything is a turn: it tries another tenth of the mutants, and another driver under the race detector.
turn=0
if [[ $tier == all && -z $chosen ]]; then
	turns=${XDG_CACHE_HOME:-$HOME/.cache}/leaderrun/turn
	if [[ ${GITHUB_RUN_NUMBER:-} ]]; then # one a night; pushes, which have a number too, are no turns
		turn=$(($(date +%s) / 86400))
	else
		turn=$(($(cat "$turns" 2>/dev/null || date +%j | sed 's/^0*//') + 1))
	fi
	mkdir -p "${turns%/*}"
	echo "$turn" >"$turns"
fi

# The program is built without cgo, so the tests are too: nothing is compiled twice. The race detector needs it, and SQLite.
export CGO_ENABLED=0

# These share memory between goroutines that must not race; elsewhere the race detector only makes the tests slow.
drivers=(consul etcd kubernetes postgres redis zookeeper)
raced='runner|backends|test/suite|internal/(supervise|daemon)(/.*)?'
if [[ $tier == quick ]]; then
	raced+='|backends/file'
else
	driver="^[^/]+/[^/]+/[^/]+/backends/${drivers[turn % 6]}(/.*)?\$"
fi
raced="^[^/]+/[^/]+/[^/]+/($raced)\$"
never='^$'
race=()
sqlite=/fence/sqlfence\$
# In these the race detector finds nothing: one goroutine of package runner, for which it is only slow, and a process of package
# redis whose memory is measured, for which it takes several times as much.
unraced='^(TestEveryOrder|TestMemory)$'
inC=()

# Beside others of their priority these would show how busy the machine is, or make it too busy for the others: the whole of
# internal/supervise has storms of processes.
beds='/test/(bed|history)$' storms='/internal/supervise$'
alone="$beds|$storms"
long='/(test/(acceptance|release|servers)|examples|internal/cli)$' # begin first
computing='/(internal/(crontab|importer|shards)|schedule|scripts/mutants)$' # wait for nothing, so any priority will do
[[ $tier == all ]] || beds='/test/bed$' alone='/test/bed$'

# Packages whose tests start what servers.sh builds, wait for it.
built='/(backends/(etcd|consul|kubernetes)|fence/s3fence|internal/cli|test/(acceptance|bed|history|servers)|examples)(/|$)'

if [[ $tier == quick ]]; then
	flags+=(-short)
	scripts/servers.sh quick &
else
	scripts/servers.sh packages &
fi
scripts/retry.sh go list -deps -test ./... >/dev/null # the modules, meanwhile
wait "$!"
if [[ $(env -u CGO_ENABLED go env CGO_ENABLED) == 1 ]]; then # there is a C compiler
	race=(CGO_ENABLED=1 -race)
	inC=(CGO_ENABLED=1 CGO_CFLAGS=-O0) # SQLite takes longer to be optimised than to be tested
fi
go -C tools/testsum build -buildvcs=false -o "$tools/testsum" .

if [[ $chosen ]]; then
	[[ $tier == quick ]] || scripts/servers.sh build
	# shellcheck disable=SC2086 # packages
	exec "$tools/testsum" "${flags[@]}" -- "${race[@]}" $chosen
fi

# list IN OUT: the packages that fit IN and not OUT.
all=$(go list ./...)
list() { grep -E "$1" <<<"$all" | grep -Ev "$2" || true; }

if [[ $tier == quick ]]; then
	# shellcheck disable=SC2046 # packages
	exec "$tools/testsum" "${flags[@]}" -p 2 -- $(list "$beds" "$never") ^ \
		"${race[@]}" -skip "$unraced" $(list "$raced" "$alone") ^ \
		$(list . "$alone|$raced|$sqlite") -- "${inC[@]}" $(list "$sqlite" "$never") -- -run "$unraced" ./runner
fi

status=0
go -C tools/testsum test . || status=1

# The fuzz targets have the time that nobody else wants: most tests wait. What is compiled for them is not so patient.
idle=(nice -n 19)
! chrt --idle 0 true 2>/dev/null || idle=(chrt --idle 0)
set -m # background jobs do not ignore SIGINT, and have a process group each
IDLE=${idle[*]} nice -n 10 scripts/fuzz.sh 10s >"$tools/fuzz.log" 2>&1 </dev/null &
fuzz=$!
set +m
trap 'kill -- "-$fuzz" 2>/dev/null || true' EXIT

now=$all
if ! scripts/servers.sh built; then
	scripts/servers.sh build &
	# shellcheck disable=SC2046 # packages
	"$tools/testsum" "${flags[@]}" -p 2 -- "${race[@]}" -skip "$unraced" $(list "$raced" "$alone|$built") -- \
		$(list . "$alone|$raced|$built|$sqlite") || status=1
	wait "$!"
	now=$(list "$built|$storms|$sqlite" "$never")
fi
all=$now
# The storms must be alone, and come first. Then the beds, one after the other, as each has up to twelve stores. They wait more than
# they work: what is compiled for the race detector or in C runs beside them, at a lower priority, which leaves them the machine
# whenever they want it.
# shellcheck disable=SC2046 # packages
"$tools/testsum" "${flags[@]}" -- "${race[@]}" $(list "$storms" "$never") || status=1
# shellcheck disable=SC2046 # packages
"$tools/testsum" -slowest=20 "${flags[@]}" -- -p 1 $(list "$beds" "$never") -- \
	-p 3 $(list "$long" "$never") $(list . "$alone|$raced|$sqlite|$long|$driver|$computing") ^ \
	"${race[@]}" -p 2 -skip "$unraced" $(list "$raced" "$alone") -- "${inC[@]}" $(list "$sqlite" "$never") -- \
	-run "$unraced" ./runner ./backends/redis -- -p 2 $(list "$computing" "$never") || status=1

# The raced driver's leases run out on a machine that has no time for it. So the mutants beside it, three at a time as one that hangs
# is waited for, have a lower priority. Who is at the end of its part helps the others.
rm -rf "$tools/taken" && mkdir "$tools/taken"
go build -o "$tools/mutants" ./scripts/mutants
parts=()
for part in 0 1 2; do
	set -m
	nice -n 10 "$tools/mutants" -turn "$((3 * turn + part))/30" -taken "$tools/taken" >"$tools/mutants.$part.log" 2>&1 </dev/null &
	set +m
	parts+=("$!")
	trap 'for job in "$fuzz" "${parts[@]}"; do kill -- "-$job" 2>/dev/null || true; done' EXIT
done
# shellcheck disable=SC2046 # packages
"$tools/testsum" "${flags[@]}" -- "${race[@]}" -skip "$unraced" $(list "$driver" "$never") || status=1
echo "mutants of turn $turn:"
for part in 0 1 2; do
	wait "${parts[part]}" || status=1
	tail -n "+$((part ? 3 : 1))" "$tools/mutants.$part.log"
done
wait "$fuzz" || status=1
cat "$tools/fuzz.log"
exit $status
