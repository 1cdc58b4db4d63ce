package hosts

import (
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// wireHeader is what precedes a frame on a wire: struct virtio_net_hdr. It says what the network card has still to do
// to it (checksum, cutting into pieces), which veth(4) leaves undone, and it is passed on as it came.
const wireHeader = 10

// openWire returns the frames that come in by a network device of this thread's namespace; what is written to it goes
// out by that device. See packet(7).
func openWire(device string) (*os.File, error) {
	card, err := net.InterfaceByName(device)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	wire := os.NewFile(uintptr(fd), device)
	for _, option := range []struct{ level, name, value int }{
		{unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1},
		{unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1},
		{unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8 << 20},
	} {
		if err := unix.SetsockoptInt(fd, option.level, option.name, option.value); err != nil {
			_ = wire.Close()
			return nil, os.NewSyscallError("setsockopt", err)
		}
	}
	all := uint16(unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8) // in the network's byte order
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: card.Index}); err != nil {
		_ = wire.Close()
		return nil, os.NewSyscallError("bind", err)
	}
	return wire, nil
}
