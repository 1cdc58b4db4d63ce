package launch

import (
	"context"
	"net"
	"strconv"

	"github.com/leaderrun/leaderrun/internal/cli"
)

// ListenTCP opens what --listen names.
func ListenTCP(address string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || port == "" {
		why := "it names no port"
		if _, notNumber := strconv.ParseUint(address, 10, 16); notNumber == nil {
			why = "the colon before the port is missing"
		}
		return nil, cli.Usage("--listen "+address, why, "HOST:PORT or :PORT, such as localhost:9465")
	}
	network := "tcp"
	if net.ParseIP(host).To4() != nil { // package net would take 0.0.0.0 for all addresses, those of IPv6 too
		network = "tcp4"
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), network, address)
	if err != nil {
		return nil, &cli.Fault{Code: cli.CodeConfiguration, What: "--listen " + address, Why: cli.Reason(err), Err: err, Hint: "HOST:PORT or :PORT that is free"}
	}
	return listener, nil
}
