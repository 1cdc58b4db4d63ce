package s3fence

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/leaderrun/leaderrun/internal/ownership"
	"github.com/leaderrun/leaderrun/internal/remedy"
)

// Keys are what requests are signed with.
type Keys struct {
	Access, Secret string
	Session        string // of keys for a time; may be empty
}

const keysHint = `set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; for roles and SSO: ` +
	`eval "$(aws configure export-credentials --format env)"`

// KeysFrom returns the keys of an environment, as other clients of S3 find them: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and
// AWS_SESSION_TOKEN, else those of AWS_PROFILE in the shared credentials file. It asks no server for keys. The error is a
// *fence.SetupError, and holds no secret.
func KeysFrom(lookup func(string) (string, bool)) (Keys, error) {
	get := func(name string) string { v, _ := lookup(name); return v }
	k := Keys{Access: get("AWS_ACCESS_KEY_ID"), Secret: get("AWS_SECRET_ACCESS_KEY"), Session: get("AWS_SESSION_TOKEN")}
	switch {
	case k.Access != "" && k.Secret != "":
		return k, nil
	case k.Access != "" || k.Secret != "":
		return Keys{}, noKeys(errors.New("of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY only one is set"))
	}
	file := get("AWS_SHARED_CREDENTIALS_FILE")
	if home := get("HOME"); file == "" && home != "" {
		file = filepath.Join(home, ".aws", "credentials")
	}
	if file == "" { // a file of the working directory is nobody's
		return Keys{}, noKeys(errors.New("there are no credentials: neither AWS_ACCESS_KEY_ID nor HOME is set"))
	}
	profile := cmp.Or(get("AWS_PROFILE"), "default")
	k, err := readKeys(file, profile)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return Keys{}, noKeys(errors.New("there are no credentials: AWS_ACCESS_KEY_ID is not set, and there is no file " + file))
	case ownership.Remedy(err) != "": // another user's keys would have what is written in a place of that user's
		return Keys{}, remedy.Misconfigured(ownership.Remedy(err), "%w", err)
	case err != nil:
		return Keys{}, noKeys(err)
	case k.Access == "" || k.Secret == "":
		const text = "there are no credentials: AWS_ACCESS_KEY_ID is not set, and the profile %q of %s has no keys"
		return Keys{}, noKeys(fmt.Errorf(text, profile, file))
	}
	return k, nil
}

func noKeys(err error) error {
	return remedy.Denied(keysHint, "%w", err)
}

// mostKeys is more bytes than a credentials file has.
const mostKeys = 1 << 20

// readKeys reads the keys of a profile.
func readKeys(file, profile string) (k Keys, err error) {
	text, err := ownership.ReadAny(file, mostKeys)
	if err != nil {
		return k, err
	}
	section := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		if name, ok := strings.CutPrefix(line, "["); ok {
			name, _, _ = strings.Cut(name, "]")
			section = strings.TrimSpace(name)
			continue
		}
		name, value, _ := strings.Cut(line, "=")
		if section != profile {
			continue
		}
		value = strings.TrimSpace(value)
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "aws_access_key_id":
			k.Access = value
		case "aws_secret_access_key":
			k.Secret = value
		case "aws_session_token":
			k.Session = value
		}
	}
	return k, nil
}
