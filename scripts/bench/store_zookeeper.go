package main

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
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
		"4lw.commands.whitelist=ruok",
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
	s.url = "zk://" + s.addr
	return await(s.serves)
}

// serves returns an error until a ZooKeeper answers "are you ok?".
func (s *server) serves() error {
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "ruok"); err != nil {
		return err
	}
	if text, err := io.ReadAll(conn); err != nil || string(text) != "imok" {
		return fmt.Errorf("it says %q ", text)
	}
	return nil
}
