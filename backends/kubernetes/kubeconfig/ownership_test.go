package kubeconfig

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/backends"
)

// Whoever can write a kubeconfig says which program this user runs.
func TestFileThatOthersCanWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	text := "current-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\nclusters: [{name: a, cluster: {server: 'https://h'}}]\n" +
		"users: [{name: a, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/false}}}]\n"
	if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chmod(path, 0o646)); err != nil {
		t.Fatal(err)
	}
	_, err := Load([]string{path}, "")
	e, ok := errors.AsType[*backends.PermanentError](err)
	if !ok || !strings.Contains(e.Error(), "can be written by others (mode 0646)") || e.Hint != "chmod go-w "+path {
		t.Errorf("%+v", err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load([]string{path}, ""); err != nil {
		t.Error(err)
	}
}
