package main

// What may import what, in a page: the layers, the standard library's few reserved packages, and what all stores have in
// common. imports_test.go reads the imports and holds them against it; modules_test.go has the modules.

// layers says what the packages at and below a path may import outside their tests, beside the standard library and each other. It
// names packages of this module by their path in it, and those of other modules by their full path. "x/..." is x and all below it,
// "others" is any other module, and "..." is anything. The longest path that fits a package counts. A package internal/NAME that is not
// here imports nothing of this module or another.
// A family of commands, below internal/cli, imports no other.
// The layers from the top: main, command, runner and schedule and backends/all, drivers, backends.
var layers = map[string]string{
	"":                      "internal/cli internal/cli/all internal/launch internal/supervise/...",
	"internal/cli/all":      "internal/cli/...",
	"internal/cli":          "runner schedule backends backends/all internal/supervise/... internal/shards internal/slots internal/lint " + crumbs + " github.com/urfave/cli/v2 go.yaml.in/yaml/v3 golang.org/x/sys/...",
	"internal/launch":       "internal/cli runner schedule backends internal/supervise/... internal/daemon internal/jobfile internal/metrics internal/shards internal/slots internal/credentialplugin " + crumbs + " golang.org/x/sys/...",
	"internal/cli/run":      "internal/cli internal/launch runner backends internal/supervise internal/shards internal/slots internal/jobfile " + crumbs,
	"internal/cli/cron":     "internal/cli internal/launch runner backends internal/supervise internal/daemon internal/jobfile internal/lint internal/metrics " + crumbs,
	"internal/cli/operate":  "internal/cli internal/launch runner schedule backends internal/supervise internal/shards internal/slots " + crumbs,
	"internal/cli/crontabs": "internal/cli internal/launch runner backends/all internal/importer internal/crontab internal/lint " + crumbs,
	"internal/cli/doctor":   "internal/cli internal/launch runner schedule backends internal/supervise internal/checkup " + crumbs + " golang.org/x/sys/...",
	"internal/cli/fence":    "internal/cli internal/launch runner backends/all fence/... internal/supervise internal/fenceproxy internal/redisclient " + crumbs,

	"runner":              "backends internal/lifeline internal/boottime internal/panics",
	"schedule":            "internal/duration github.com/robfig/cron/v3",
	"backends":            "internal/panics internal/remedy",
	"backends/all":        "backends/... internal/ownership internal/spelling",
	"backends/file":       "backends internal/checkup internal/filename internal/filesystem internal/flock internal/ownership internal/panics",
	"backends/redis":      "backends internal/checkup internal/backendurl internal/redisurl internal/redisconn internal/httplimit internal/panics github.com/redis/go-redis/v9/...",
	"backends/etcd":       "backends internal/checkup internal/backendurl internal/httplimit internal/panics",
	"backends/consul":     "backends internal/checkup internal/backendurl internal/httplimit internal/ownership internal/panics github.com/hashicorp/consul/api/...",
	"backends/kubernetes": "backends internal/checkup internal/backendurl internal/credentialplugin internal/httplimit internal/ownership internal/panics go.yaml.in/yaml/v3",
	"backends/zookeeper":  "backends internal/checkup internal/backendurl internal/panics",
	"backends/postgres":   "backends internal/checkup internal/backendurl internal/httplimit internal/panics internal/remedy github.com/jackc/pgx/v5/pgconn github.com/jackc/pgx/v5/pgproto3",

	"fence":            "internal/remedy",
	"fence/filefence":  "fence internal/remedy internal/filename internal/flock golang.org/x/sys/...",
	"fence/httpfence":  "fence fence/filefence internal/ownership internal/remedy",
	"fence/redisfence": "fence internal/remedy github.com/redis/go-redis/v9/...",
	"fence/s3fence":    "fence internal/ownership internal/remedy github.com/aws/aws-sdk-go-v2/aws/...",
	"fence/sqlfence":   "fence",
	"fence/fencetest":  "fence",

	"internal/supervise":        "internal/lifeline internal/boottime internal/panics golang.org/x/sys/...",
	"internal/lifeline":         "internal/boottime",
	"internal/ownership":        "golang.org/x/sys/...",
	"internal/fenceproxy":       "fence fence/httpfence internal/panics",
	"internal/daemon":           "runner backends internal/jobfile internal/boottime internal/panics internal/shards internal/slots",
	"internal/jobfile":          "backends runner schedule internal/crontab internal/duration internal/spelling internal/ownership internal/slots internal/value go.yaml.in/yaml/v3",
	"internal/slots":            "backends internal/panics internal/remedy",
	"internal/shards":           "backends runner internal/panics internal/remedy internal/slots",
	"internal/metrics":          "runner backends internal/filename internal/flock internal/ownership github.com/prometheus/client_model/go github.com/prometheus/common/expfmt github.com/prometheus/common/model",
	"internal/importer":         "schedule internal/crontab internal/duration internal/jobfile internal/ownership internal/slots internal/value go.yaml.in/yaml/v3 golang.org/x/sys/...",
	"internal/crontab":          "internal/account",
	"internal/lint":             "schedule backends/all internal/crontab internal/duration internal/jobfile",
	"internal/checkup":          "backends internal/panics",
	"internal/backendurl":       "backends internal/duration internal/ownership",
	"internal/redisurl":         "backends internal/backendurl",
	"internal/redisconn":        "internal/backendurl internal/redisurl github.com/redis/go-redis/v9/...",
	"internal/redisclient":      "internal/redisurl internal/redisconn internal/panics github.com/redis/go-redis/v9/...",
	"internal/credentialplugin": "internal/panics",

	"test":         "...",
	"test/suite":   "backends internal/checkup test/servers test/waits others",
	"test/virtual": "backends internal/lifeline runner",
	"examples":     "fence/... runner schedule backends/... others",
	"scripts":      "...",
}

// crumbs are small packages that every command may use.
const crumbs = "internal/account internal/backendurl internal/boottime internal/duration internal/httplimit internal/ownership internal/panics internal/remedy internal/spelling internal/value"

// testOnly is made for tests, and for the benchmarks, which start the same servers: the product never links it.
const testOnly = "test/... fence/fencetest scripts/bench"

// restricted are the packages of the standard library that not every package may import, and which may.
var restricted = map[string]string{
	"os/exec":   "internal/supervise/... internal/credentialplugin internal/importer test/... scripts/... examples/...",
	"os/signal": "internal/supervise/... internal/cli/... test/... scripts/... examples/...",
	"log/slog":  "runner internal/... test/... scripts/... examples/...",
	"log":       "examples/...",
	"testing":   testOnly,
	"flag":      "internal/cli scripts/... examples/... test/...",
}

// bareGoroutines is where a goroutine may begin without panics.Go: what hands its panics on, and what must not import it.
var bareGoroutines = []string{
	"internal/panics", "internal/boottime", "internal/supervise/ahead", "internal/supervise/guardian", "internal/supervise/tree",
	"runner/loop.go", "internal/daemon/due.go",
}

// The files of every store, beside the one that has its name: who knows one store finds everything in another.
// docs/design/writing-a-backend.md says what they hold.
var storeFiles = []string{"config.go", "keys.go", "read.go", "extend.go", "swap.go", "list.go", "watch.go", "errors.go", "check.go"}

// The packages below backends that are no drivers, and what a driver may lack.
var (
	noDrivers = []string{"all"}
	without   = map[string]string{
		"file":       "extend.go", // a lock has no end of its own
		"kubernetes": "extend.go", // a Lease has no end of its own
		"postgres":   "extend.go", // a lease is what Swap writes
	}
)

// Names that say nothing about what a package holds.
var vague = []string{"base", "common", "core", "helper", "helpers", "lib", "misc", "shared", "util", "utils"}
