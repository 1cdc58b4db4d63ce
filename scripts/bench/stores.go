package main

import (
	"errors"
	"path/filepath"
)

// stores are the servers to measure with, each with its defaults but for what a comment names.
var stores = []store{
	{name: "Redis", needs: []string{"redis-server"}, start: startRedis},
	{
		name: "etcd", needs: []string{"etcd", "etcdctl"}, start: startEtcd,
		peerName: "etcdctl lock",
		peer: func(s *server) (way, error) {
			path, err := program("etcdctl")
			queue := func(job string) []string { return []string{path, "--endpoints", s.addr, "lock", "peer-" + job} }
			return way{run: queue("bench"), queue: queue}, err
		},
	},
	{
		name: "Consul", needs: []string{"consul"}, start: startConsul,
		peerName: "consul lock",
		peer: func(s *server) (way, error) {
			path, err := program("consul")
			queue := func(job string) []string {
				return []string{path, "lock", "-http-addr=" + s.addr, "-shell=false", "peer-" + job}
			}
			return way{run: queue("bench"), queue: queue}, err
		},
	},
	{
		name: "PostgreSQL", needs: []string{"initdb", "postgres", "psql"}, start: startPostgres,
		peerName: "psql advisory lock", peer: psqlWay,
	},
	// No wrapper is in common use with ZooKeeper, and none with Kubernetes: its own clients elect leaders inside a program.
	{name: "ZooKeeper", needs: []string{"java", zookeeperJar}, start: startZooKeeper, early: 300},
	{name: "Kubernetes", needs: []string{"kube-apiserver", "etcd"}, start: startKubernetes},
}

func startRedis(s *server) error {
	if err := s.launch("redis-server", "--port", port(s.addr), "--bind", "127.0.0.1", "--save", "", "--dir", s.dir); err != nil {
		return err
	}
	s.url = "redis://" + s.addr + "/?longest-ttl=15s"
	return await(s.listens)
}

func startEtcd(s *server) error {
	s.url = "etcd://" + s.addr
	return s.launchEtcd(s.addr)
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
	s.url = "consul://" + s.addr
	err := s.launch("consul", "agent", "-server", "-bootstrap-expect=1", "-bind=127.0.0.1", "-data-dir", filepath.Join(s.dir, "data"),
		"-http-port", port(s.addr), "-server-port", port(freeAddr()), "-serf-lan-port", port(freeAddr()),
		"-serf-wan-port=-1", "-dns-port=-1", "-grpc-port=-1", "-grpc-tls-port=-1",
		"-hcl", "performance { raft_multiplier = 1 } disable_update_check = true")
	if err != nil {
		return err
	}
	return await(func() error {
		api := "http://" + s.addr + "/v1/"
		return errors.Join(says(api+"status/leader", ":"), says(api+"health/service/consul?passing=1", "Node"))
	})
}
