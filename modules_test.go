package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// modules is what go.mod may require directly, and why.
var modules = map[string]string{
	"github.com/urfave/cli/v2":            "flags of internal/cli",
	"github.com/robfig/cron/v3":           "the fields of a cron expression, behind package schedule",
	"go.yaml.in/yaml/v3":                  "job files and the configuration file, strict; kubeconfig",
	"golang.org/x/sys":                    "prctl, pidfd and the like, which package syscall lacks",
	"github.com/redis/go-redis/v9":        "driver redis, and fences in it",
	"go.etcd.io/etcd/api/v3":              "tests: the official messages, as the oracle of the etcd client",
	"go.etcd.io/etcd/client/v3":           "tests: the official client, as the oracle of the etcd client",
	"google.golang.org/grpc":              "tests: the errors of the official client",
	"github.com/hashicorp/consul/api":     "driver consul",
	"github.com/aws/aws-sdk-go-v2":        "the signature of requests to S3, of s3fence",
	"github.com/prometheus/client_golang": "tests: the linter of names of metrics",
	"github.com/prometheus/client_model":  "the messages that expfmt writes and reads",
	"github.com/prometheus/common":        "the text format of metrics: its writer and parser (expfmt), which names it takes (model)",
	"github.com/jackc/pgx/v5":             "driver postgres: its log-in and its messages (pgconn, pgproto3); tests: a driver of PostgreSQL for package fence/sqlfence",
	"github.com/go-sql-driver/mysql":      "tests: one of MySQL and MariaDB",
	"github.com/mattn/go-sqlite3":         "tests: one of SQLite",
	"github.com/anishathalye/porcupine":   "tests: is a history of claims linearizable",
	"github.com/google/go-cmp":            "tests: differences that can be read",
	"github.com/rogpeppe/go-internal":     "tests: the command line, as .txtar scripts",
	"go.uber.org/goleak":                  "tests: goroutines left behind",
	"pgregory.net/rapid":                  "tests: state machines against a model",
}

func TestModulesHaveAReason(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range unreasoned(mod) {
		t.Error(v)
	}
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	linked := strings.Fields(string(out))
	product, tests, _ := strings.Cut(string(mod), "// What its tests use.")
	for module := range modules {
		switch {
		case strings.Contains(product, "\t"+module+" v") && !slices.Contains(linked, module):
			t.Errorf("go.mod: %s is not linked: it belongs to what the tests use", module)
		case strings.Contains(tests, "\t"+module+" v") && slices.Contains(linked, module):
			t.Errorf("go.mod: %s is linked: it belongs to what the program links", module)
		}
	}
}

func TestModulesWithoutAReasonAreFound(t *testing.T) {
	mod := "module m\n\nrequire example.com/a v1.0.0\n\nrequire (\n\tgolang.org/x/sys v0.1.0\n\texample.com/b v1.0.0 // indirect\n)\n\nreplace x => ./y\n"
	if got := unreasoned([]byte(mod)); len(got) != 2 || !strings.Contains(got[0], "example.com/a") || !strings.Contains(got[1], "replace") {
		t.Errorf("modules without a reason: got %q", got)
	}
}

// unreasoned says what of go.mod has no reason in the table.
func unreasoned(mod []byte) []string {
	var found []string
	for line := range bytes.Lines(mod) {
		words := strings.Fields(strings.TrimPrefix(string(line), "require "))
		switch {
		case len(words) == 0:
		case words[0] == "replace" || words[0] == "exclude" || words[0] == "tool":
			found = append(found, fmt.Sprintf("go.mod: %s: go install of the program would not have it", strings.TrimSpace(string(line))))
		case len(words) == 2 && strings.HasPrefix(words[1], "v") && modules[words[0]] == "":
			found = append(found, fmt.Sprintf("go.mod requires %s: give the reason in modules_test.go", words[0]))
		}
	}
	return found
}
