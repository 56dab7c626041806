// Package testenv starts real spaces for tests. It runs the starling binary that `make build` has
// built, so that no test links Kubernetes.
//
// The tests of a package share one fleet if it has a TestMain:
//
//	func TestMain(m *testing.M) {
//		testenv.Main(m, testenv.Options{Spaces: []string{"wds1"}})
//	}
//
//	func TestSomething(t *testing.T) {
//		fleet := testenv.Shared(t)
//		...
//	}
//
// A test that needs a whole fleet takes one from a Pool. One that breaks its fleet starts its own
// with Start. The fleets stop when the test process ends, also if it is killed.
package testenv
