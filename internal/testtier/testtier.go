// Package testtier says how much a test is to try. It is linked into tests only, and is a leaf: what servers need is elsewhere.
package testtier

import "os"

// Variable is the environment variable by which everything is asked for, with the value 1.
const Variable = "LEADERRUN_TEST_ALL"

// All says whether a test is to try everything, however long it takes. Otherwise it tries a part of it in seconds, which is no
// less in kind: each rule is tried, and fewer of the ways in which it may be broken.
func All() bool { return os.Getenv(Variable) == "1" }
