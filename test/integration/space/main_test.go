// Package space_test shows that a fleet is real: it comes and goes whole, keeps its data, survives
// the death of each of its processes, and lets nobody in who is not asked.
package space_test

import (
	"testing"

	"github.com/starlinghq/starling/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m, testenv.Options{OCM: true, WECs: 1}) }
