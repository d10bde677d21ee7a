//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package localpg

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// owner is the user that root runs a server as. It is nil in a process that is
// not root: the server then runs as the same user.
type owner struct {
	name     string
	uid, gid uint32
}

// nobodyID is the id of user nobody on almost every system, for images without /etc/passwd.
const nobodyID = 65534

func serverOwner() (*owner, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		account, err := user.Lookup(name)
		if err != nil {
			continue
		}
		o, err := parseOwner(account)
		if err != nil {
			return nil, err
		}
		if o.uid != 0 {
			return o, nil
		}
	}
	return &owner{name: "nobody", uid: nobodyID, gid: nobodyID}, nil
}

func parseOwner(account *user.User) (*owner, error) {
	uid, err := strconv.ParseUint(account.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("localpg: user id of %s: %w", account.Username, err)
	}
	gid, err := strconv.ParseUint(account.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("localpg: group id of %s: %w", account.Username, err)
	}
	return &owner{name: account.Username, uid: uint32(uid), gid: uint32(gid)}, nil
}

// Credential is the user that private servers run as, for other programs that refuse to run as root or have to share
// their files. It is nil if that is the user of this process.
func Credential() (*syscall.Credential, error) {
	owner, err := serverOwner()
	return owner.credential(), err
}

func (o *owner) credential() *syscall.Credential {
	if o == nil {
		return nil
	}
	return &syscall.Credential{Uid: o.uid, Gid: o.gid}
}

// own makes the owner the owner of a directory that this process created.
func (o *owner) own(dir string) error {
	if o == nil {
		return nil
	}
	return os.Chown(dir, int(o.uid), int(o.gid))
}

// reaches reports whether the owner may enter path, a directory, and every
// directory above it. Group permissions do not count.
func (o *owner) reaches(path string) bool {
	if o == nil {
		return true
	}
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return false
	}
	for {
		info, err := os.Stat(path)
		if err != nil || !o.enters(info) {
			return false
		}
		if path == filepath.Dir(path) {
			return true
		}
		path = filepath.Dir(path)
	}
}

// writes reports whether the owner may create and remove files in dir.
func (o *owner) writes(dir string) bool {
	if o == nil {
		return true
	}
	info, err := os.Stat(dir)
	return err == nil && o.may(0o2, info)
}

func (o *owner) enters(info os.FileInfo) bool { return o.may(0o1, info) }

// may checks one permission, given as its bit for others.
func (o *owner) may(bit os.FileMode, info os.FileInfo) bool {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid == o.uid {
		bit <<= 6
	}
	return info.Mode()&bit != 0
}
