package schedule

// A Misfire decides what happens to occurrences that are late by more than a [Rule]'s Grace.
type Misfire uint8

const (
	MisfireOnce Misfire = iota // the default: the newest due occurrence is fired and stands for all that were missed
	MisfireSkip                // none is fired
	MisfireAll                 // each is fired, the newest [Rule].Cap of them
)

var misfires = []string{MisfireOnce: "once", MisfireSkip: "skip", MisfireAll: "all"}

// String returns "once", "skip" or "all".
func (m Misfire) String() string { return nameOf(misfires, int(m)) }

// ParseMisfire is the inverse of [Misfire.String]. The empty string is the default.
func ParseMisfire(name string) (Misfire, error) {
	i, err := valueOf(misfires, "misfire", name)
	return Misfire(i), err
}

// An Overlap decides what happens to an occurrence that becomes due while an earlier one is running.
type Overlap uint8

const (
	OverlapAllow  Overlap = iota // the default: they run side by side
	OverlapSkip                  // the new one is dropped
	OverlapBuffer                // one waits for the end of the earlier one; further ones are dropped
)

var overlaps = []string{OverlapAllow: "allow", OverlapSkip: "skip", OverlapBuffer: "buffer"}

// String returns "allow", "skip" or "buffer".
func (o Overlap) String() string { return nameOf(overlaps, int(o)) }

// ParseOverlap is the inverse of [Overlap.String]. The empty string is the default.
func ParseOverlap(name string) (Overlap, error) {
	i, err := valueOf(overlaps, "overlap", name)
	return Overlap(i), err
}
