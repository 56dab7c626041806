package space_test

import (
	"testing"

	"github.com/starlinghq/starling/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m, testenv.Options{}) }

func TestUp(t *testing.T) {
	f := testenv.Shared(t)
	t.Log(f.Kubectl(t, "wds1", "get", "ns"))
	f.Restart(t, "wds1/kube-controller-manager")
}
