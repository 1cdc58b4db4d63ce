package main

var kubernetesTests = []string{"./backends/kubernetes"}

// kubernetesMutants break the rules of the driver kubernetes.
var kubernetesMutants = []mutant{}
