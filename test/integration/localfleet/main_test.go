// Package localfleet_test checks that a fleet starts and stops completely, keeps its data, survives
// the end of each of its processes, and refuses access without the right credentials.
package localfleet_test

import (
	"testing"

	"github.com/starlinghq/starling/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m, testenv.Options{OCM: true, WECs: 1}) }
