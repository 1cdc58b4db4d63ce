package main

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
)

// stores are the servers to measure with, each with its defaults but for what a comment names. Where all hosts are one, some
// would take too few connections.
var stores = []store{
	{name: "Redis", needs: []string{"redis-server"}, start: startRedis},
	{
		name: "etcd", needs: []string{"etcd", "etcdctl"}, start: startEtcd, tells: 1,
		peerName: "etcdctl lock",
		peer: func(s *server) (way, error) {
			path, err := program("etcdctl")
			queue := func(job string) []string { return []string{path, "--endpoints", s.addr, "lock", "peer-" + job} }
			return way{run: queue("bench"), queue: queue}, err
		},
	},
	{
		name: "Consul", needs: []string{"consul"}, start: startConsul, tells: 1,
		peerName: "consul lock",
		peer: func(s *server) (way, error) {
			path, err := program("consul")
			queue := func(job string) []string {
				return []string{path, "lock", "-http-addr=" + s.addr, "-shell=false", "peer-" + job}
			}
			return way{run: queue("bench"), queue: queue, tells: 1}, err
		},
	},
	{
		name: "PostgreSQL", needs: []string{"initdb", "postgres", "psql"}, start: startPostgres,
		peerName: "psql advisory lock", peer: psqlWay,
	},
	// No wrapper is in common use with ZooKeeper, and none with Kubernetes: its own clients elect leaders inside a program.
	{name: "ZooKeeper", needs: []string{"java", zookeeperJar}, start: startZooKeeper, tells: 1, early: 300},
	{name: "Kubernetes", needs: []string{"kube-apiserver", "etcd"}, start: startKubernetes, tells: 1},
}

func startRedis(s *server) error {
	if err := s.launch("redis-server", "--port", port(s.addr), "--bind", "127.0.0.1", "--save", "", "--dir", s.dir); err != nil {
		return err
	}
	s.url = "redis://" + s.addr + "/?longest-ttl=15s"
	err := await(func() error {
		c, err := net.Dial("tcp", s.addr)
		if err == nil {
			_ = c.Close()
		}
		return err
	})
	if err != nil {
		return err
	}
	s.counter, err = dialRedis(s.addr)
	return err
}

func startEtcd(s *server) error {
	s.url, s.counter = "etcd://"+s.addr, etcdCounter("http://"+s.addr+"/metrics")
	return s.launchEtcd(s.addr)
}

// etcdOfThree is a cluster.
var etcdOfThree = store{name: "etcd of three", needs: []string{"etcd"}, start: startEtcdOfThree, tells: 1}

func startEtcdOfThree(s *server) error {
	clients, peers := []string{s.addr, freeAddr(), freeAddr()}, []string{freeAddr(), freeAddr(), freeAddr()}
	var members []string
	var each etcdCounters
	for i, peer := range peers {
		members = append(members, fmt.Sprintf("m%d=http://%s", i, peer))
		each = append(each, etcdCounter("http://"+clients[i]+"/metrics"))
	}
	s.url, s.counter = "etcd://"+strings.Join(clients, ","), each
	for i, client := range clients {
		client, peer := "http://"+client, "http://"+peers[i]
		err := s.launch("etcd", "--name", fmt.Sprint("m", i), "--data-dir", filepath.Join(s.dir, fmt.Sprint("etcd", i)), "--log-level", "error",
			"--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
			"--initial-advertise-peer-urls", peer, "--initial-cluster", strings.Join(members, ","))
		if err != nil {
			return err
		}
	}
	for _, client := range clients {
		if err := await(func() error { return says("http://"+client+"/health", `"true"`) }); err != nil {
			return err
		}
	}
	return nil
}

// launchEtcd starts an etcd and waits until it serves clients.
func (s *server) launchEtcd(addr string) error {
	client, peer := "http://"+addr, "http://"+freeAddr()
	err := s.launch("etcd", "--data-dir", filepath.Join(s.dir, "etcd"), "--log-level", "error",
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)
	if err != nil {
		return err
	}
	return await(func() error { return says(client+"/health", `"true"`) })
}

func startConsul(s *server) error {
	s.url, s.counter = "consul://"+s.addr, &consulCounter{addr: s.addr}
	err := s.launch("consul", "agent", "-server", "-bootstrap-expect=1", "-bind=127.0.0.1", "-data-dir", filepath.Join(s.dir, "data"),
		"-http-port", port(s.addr), "-server-port", port(freeAddr()), "-serf-lan-port", port(freeAddr()),
		"-serf-wan-port=-1", "-dns-port=-1", "-grpc-port=-1", "-grpc-tls-port=-1",
		"-hcl", "performance { raft_multiplier = 1 } disable_update_check = true",
		// Counters to read, and more than 200 connections from one host, which here is all hosts.
		"-hcl", `telemetry { prometheus_retention_time = "24h" disable_hostname = true } limits { http_max_conns_per_client = 10000 }`)
	if err != nil {
		return err
	}
	return await(func() error {
		api := "http://" + s.addr + "/v1/"
		return errors.Join(says(api+"status/leader", ":"), says(api+"health/service/consul?passing=1", "Node"))
	})
}
