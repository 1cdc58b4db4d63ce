//go:build !linux

package servers

import (
	"context"
	"errors"
	"net"
)

func dialFrom(ctx context.Context, netns, network, addr string) (net.Conn, error) {
	if netns != "" {
		return nil, errors.New("network namespaces are of Linux")
	}
	return (&net.Dialer{}).DialContext(ctx, network, addr)
}
