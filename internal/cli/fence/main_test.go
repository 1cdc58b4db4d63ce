package fence_test

import (
	"testing"

	"github.com/leaderrun/leaderrun/test/program"
)

func TestMain(m *testing.M) { program.Main(m, nil) }
