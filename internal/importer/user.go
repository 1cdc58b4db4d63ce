package importer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/leaderrun/leaderrun/internal/crontab"
)

// UserCrontab is the path of the source that ReadUser returns.
const UserCrontab = "crontab -l"

// ReadUser reads the crontab of this user by crontab(1), which alone knows where it lies and who may have one.
func ReadUser() (Source, error) {
	out, err := callCrontab("-l")
	if err != nil {
		return Source{}, err
	}
	text, err := readText(bytes.NewReader(out))
	if err != nil {
		return Source{}, &Refusal{Path: UserCrontab, Why: err.Error()}
	}
	return Source{Path: UserCrontab, Text: text, Format: crontab.User}, nil
}

func callCrontab(arg string) (stdout []byte, err error) {
	out, err := exec.CommandContext(context.Background(), "crontab", arg).Output() //nolint:gosec // -l or a file of ours
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		why := strings.TrimSpace(string(exit.Stderr))
		if why == "" {
			why = exit.Error()
		}
		return nil, &Refusal{Path: "crontab " + arg, Why: strings.ReplaceAll(why, "\n", "; ")}
	}
	if err != nil {
		return nil, &Refusal{"crontab", "it cannot be called: " + err.Error(), "it comes with cron, and PATH must name its directory"}
	}
	return out, nil
}

// install is Write for a user's crontab.
func (f *File) install() (backup string, err error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return "", f.refuse("there is no HOME, where the former one would be kept", "set HOME")
	}
	backup, next, err := f.prepare(filepath.Join(home, "crontab"), nil)
	if err != nil {
		return "", err
	}
	defer func() { _ = os.Remove(next) }()
	_, failed := callCrontab(next)
	if failed != nil && f.isAsRead() {
		return "", errors.Join(failed, os.Remove(backup))
	}
	now, err := ReadUser()
	if err == nil && string(now.Text) != string(f.After) {
		err = errors.New("it shows something else than was installed")
	}
	if failed = errors.Join(failed, err); failed != nil {
		return "", f.refuse(failed.Error(), fmt.Sprintf("look at `crontab -l`; the former one is %s, which `crontab %s` installs", backup, backup))
	}
	return backup, nil
}
