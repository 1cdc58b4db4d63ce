//go:build !cgo

package sqlfence_test

import "testing"

func TestSQLite(t *testing.T) { t.Skip("the SQLite driver of the tests needs cgo and a C compiler") }
