//go:build !linux

package main

// A process that leaves its group cannot be found on this platform.

func adoptOrphans() {}

func (f *family) wait() error {
	err := f.cmd.Wait()
	f.clear()
	return err
}

func (f *family) terminate() error { return terminateGroup(f.cmd.Process) }

func (f *family) left() bool { return groupLeft(f.cmd.Process) }

func (f *family) kill() { killGroup(f.cmd.Process) }

func killDescendants() {}

func bury(func(pid int) bool) {}
