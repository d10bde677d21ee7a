package httppost

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"
)

// special are address blocks that are not public and that package netip has no predicate for.
var special = prefixes(
	"0.0.0.0/8",       // this network
	"100.64.0.0/10",   // carrier-grade NAT
	"192.0.0.0/24",    // protocol assignments
	"192.0.2.0/24",    // documentation
	"192.88.99.0/24",  // 6to4 relays
	"198.18.0.0/15",   // benchmarks
	"198.51.100.0/24", // documentation
	"203.0.113.0/24",  // documentation
	"240.0.0.0/4",     // reserved, and broadcast
	"2001::/23",       // protocol assignments, including Teredo
	"2001:db8::/32",   // documentation
	"2002::/16",       // 6to4: embeds an IPv4 address
	"3fff::/20",       // documentation
)

// globalUnicast is the public part of IPv6, apart from special blocks within it. All other addresses are reserved or
// embed another address, for example an IPv4 address (::/96, ::ffff:0:0:0/96, 64:ff9b::/96).
var globalUnicast = netip.MustParsePrefix("2000::/3")

func prefixes(texts ...string) []netip.Prefix {
	all := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		all[i] = netip.MustParsePrefix(text)
	}
	return all
}

// ErrPrivate says that the receiver's address was refused, see [ClientOptions].PublicOnly.
var ErrPrivate = errors.New("the receiver's address is not public, and such addresses are not allowed")

// refusePrivate checks every address that is about to be dialled, after names were resolved. A name that resolves to
// another address the second time is therefore refused too.
func refusePrivate(_ context.Context, _, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("the receiver's address cannot be read: %w", err)
	}
	if !public(at.Addr()) {
		return fmt.Errorf("%s: %w", at.Addr(), ErrPrivate)
	}
	return nil
}

func public(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() {
		return false
	}
	if a.Is6() && !globalUnicast.Contains(a) {
		return false
	}
	return !slices.ContainsFunc(special, func(block netip.Prefix) bool { return block.Contains(a) })
}
