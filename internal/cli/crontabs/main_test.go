package crontabs_test

import (
	"testing"

	"github.com/leaderrun/leaderrun/test/program"
)

// lint asks the command run what it refuses.
func TestMain(m *testing.M) { program.Main(m, nil) }
