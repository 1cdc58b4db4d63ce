package main

import "slices"

// fenceMutants break the rules of fenced resources.
var fenceMutants = slices.Concat(fileFenceMutants, sqlFenceMutants, redisFenceMutants, s3FenceMutants, httpFenceMutants)

var fileFenceMutants = []mutant{}

var sqlFenceMutants = []mutant{}

var redisFenceMutants = []mutant{}

var s3FenceMutants = []mutant{}

var httpFenceMutants = []mutant{}
