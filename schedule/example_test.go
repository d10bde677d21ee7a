package schedule_test

import (
	"fmt"
	"time"

	"github.com/txwork/txwork/schedule"
)

// New York has no 02:30 on 8 March 2026.
func ExampleSchedule_Next() {
	s, err := schedule.Parse("30 2 * * *", "America/New_York")
	if err != nil {
		fmt.Println(err)
		return
	}
	next := time.Date(2026, 3, 7, 0, 0, 0, 0, time.UTC)
	for range 3 {
		next, _ = s.Next(next)
		fmt.Println(next)
	}
	// Output:
	// 2026-03-07 02:30:00 -0500 EST
	// 2026-03-08 03:00:00 -0400 EDT
	// 2026-03-09 02:30:00 -0400 EDT
}

func ExampleParse_refused() {
	_, err := schedule.Parse("0 0 30 2 *", "")
	fmt.Println(err)
	_, err = schedule.Parse("0 0 9 * * *", "")
	fmt.Println(err)
	// Output:
	// schedule "0 0 30 2 *": day-of-month never comes in the months that are named
	// schedule "0 0 9 * * *": expression has 6 fields instead of 5 (minute hour day-of-month month day-of-week): there are no seconds and no years; for seconds use @every
}

// The scheduler was down from before ten until half past one.
func ExampleRule_Due() {
	s, _ := schedule.Parse("@hourly", "")
	planned := time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC)
	now := time.Date(2026, 1, 1, 13, 30, 0, 0, time.UTC)

	fire, skipped, following, _ := schedule.Rule{Misfire: schedule.MisfireOnce}.Due(s, planned, now)
	fmt.Println(fire[0].Format(time.TimeOnly), skipped, following.Format(time.TimeOnly))
	// Output: 13:00:00 3 14:00:00
}
