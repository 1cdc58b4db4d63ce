package main

var postgresTests = []string{"./backends/postgres"}

// postgresMutants break the rules of the driver postgres.
var postgresMutants = []mutant{}
