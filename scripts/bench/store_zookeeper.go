package main

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"
)

// zookeeperJar is where Debian's package has the server. Its manifest names what else it needs.
const zookeeperJar = "/usr/share/java/zookeeper.jar"

// startZooKeeper starts a ZooKeeper that is alone. It syncs to disk.
func startZooKeeper(s *server) error {
	host, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		return err
	}
	conf, err := s.write("zoo.cfg", strings.Join([]string{
		"dataDir=" + filepath.Join(s.dir, "data"), "clientPortAddress=" + host, "clientPort=" + port,
		"tickTime=2000",            // as in the zoo.cfg that comes with it
		"admin.enableServer=false", // it would listen on a port of its own
		"4lw.commands.whitelist=*", // counters to read
		"maxClientCnxns=0",         // more than 60 connections from one host, which here is all hosts
	}, "\n")+"\n")
	if err != nil {
		return err
	}
	log := filepath.Join(filepath.Dir(zookeeperJar), "slf4j-simple.jar") // tells why it does not start, if it is there
	err = s.launch("java", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", zookeeperJar+":"+log,
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", conf)
	if err != nil {
		return err
	}
	s.url, s.counter = "zk://"+s.addr, &zookeeperCounter{addr: s.addr}
	return await(func() error {
		_, err := s.requests()
		return err
	})
}

// zookeeperCounter asks a server by its "four letter words".
type zookeeperCounter struct {
	addr  string
	asked int // words, each of which the server counts
}

// say returns what the server answers.
func (c *zookeeperCounter) say(word string) (string, error) {
	conn, err := net.Dial("tcp", c.addr)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	c.asked++
	text, err := io.ReadAll(conn)
	return string(text), err
}

func (c *zookeeperCounter) requests() (int, error) {
	asked := c.asked
	text, err := c.say("mntr")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(text, "\nzk_packets_received\t")
	number, _, _ := strings.Cut(rest, "\n")
	received, err := strconv.Atoi(number)
	if err != nil {
		return 0, fmt.Errorf("mntr: %q", text)
	}
	return received - asked, nil
}

// told counts connections, however much each watches.
func (c *zookeeperCounter) told() (n int, err error) {
	text, err := c.say("wchs")
	if err != nil {
		return 0, err
	}
	if _, err := fmt.Sscanf(text, "%d connections watching", &n); err != nil {
		return 0, fmt.Errorf("wchs: %q", text)
	}
	return n, nil
}
