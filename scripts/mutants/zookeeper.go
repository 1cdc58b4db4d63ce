package main

var zookeeperTests = []string{"./backends/zookeeper"}

// zookeeperMutants break the rules of the driver zookeeper.
var zookeeperMutants = []mutant{}
