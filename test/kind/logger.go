package kindtest

import (
	"testing"

	"sigs.k8s.io/kind/pkg/log"
)

// logger writes what kind says to the log of a test.
type logger struct{ t testing.TB }

var _ log.Logger = logger{}

func (l logger) Warn(message string)               { l.t.Log("kind: " + message) }
func (l logger) Warnf(format string, args ...any)  { l.t.Logf("kind: "+format, args...) }
func (l logger) Error(message string)              { l.t.Log("kind: " + message) }
func (l logger) Errorf(format string, args ...any) { l.t.Logf("kind: "+format, args...) }
func (l logger) V(level log.Level) log.InfoLogger  { return infoLogger{l.t, level == 0} }

type infoLogger struct {
	t       testing.TB
	enabled bool
}

func (l infoLogger) Enabled() bool { return l.enabled }

func (l infoLogger) Info(message string) {
	if l.enabled {
		l.t.Log("kind: " + message)
	}
}

func (l infoLogger) Infof(format string, args ...any) {
	if l.enabled {
		l.t.Logf("kind: "+format, args...)
	}
}
