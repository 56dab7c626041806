package repositories

import (
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
)

const (
	// DefaultInterval is the interval between passes of a Repository without a schedule.
	DefaultInterval = 5 * time.Minute
	// DefaultMinInterval is the least time between two passes.
	DefaultMinInterval = 10 * time.Second
)

// parseSchedule reads spec.sync.schedule.
func parseSchedule(sync *configv1alpha1.RepositorySync) (cron.Schedule, error) {
	if sync == nil || sync.Schedule == "" {
		return cron.Every(DefaultInterval), nil
	}
	if strings.Contains(sync.Schedule, "TZ=") {
		return nil, fmt.Errorf("spec.sync.schedule %q: times are in UTC; TZ= is not supported", sync.Schedule)
	}
	schedule, err := cron.ParseStandard(sync.Schedule)
	if err != nil {
		return nil, fmt.Errorf("spec.sync.schedule %q: %w; use a form such as \"*/10 * * * *\" or \"@every 30s\"", sync.Schedule, err)
	}
	return schedule, nil
}

// nextSync returns the time of the next pass: by the schedule, after failures sooner, and never
// before the least interval has passed.
func nextSync(schedule cron.Schedule, now time.Time, failures int, least time.Duration) time.Time {
	next := schedule.Next(now.UTC())
	if next.IsZero() { // a date that never comes
		next = now.Add(24 * time.Hour)
	}
	if failures > 0 {
		wait := min(least<<min(failures-1, 10), DefaultInterval)
		if retry := now.Add(wait); retry.Before(next) {
			next = retry
		}
	}
	if earliest := now.Add(least); next.Before(earliest) {
		next = earliest
	}
	return next
}
