// Package testenv gives tests real spaces: it starts the starling binary that `make build` has
// built, so that no test links Kubernetes.
//
// A package that shares one fleet among its tests says so in TestMain:
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
// A test that breaks its fleet starts one of its own with Start. However the test process ends, its
// fleets end with it.
package testenv
