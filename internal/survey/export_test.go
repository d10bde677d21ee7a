package survey

import "time"

// Age makes the transaction that reads share older.
func (r Reader) Age(by time.Duration) { r.sitting.begun = r.sitting.begun.Add(-by) }
