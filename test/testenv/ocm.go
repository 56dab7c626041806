package testenv

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"
)

// ManagedClusterCRD returns where the CRD of ManagedClusters is, for tests that need them served
// and no OCM.
func ManagedClusterCRD(t testing.TB) string {
	t.Helper()
	return OCM(t, "cluster/v1/0000_00_clusters.open-cluster-management.io_managedclusters.crd.yaml")
}

// OCM returns where a file of OCM's APIs is. Their module comes with the CRDs.
func OCM(t testing.TB, file string) string {
	t.Helper()
	// `go list -m` would name no directory where the module has not been fetched yet.
	text, err := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", "open-cluster-management.io/api").Output()
	if err != nil {
		t.Fatalf("download OCM's APIs: %v: %s", err, text)
	}
	var module struct {
		Dir string `json:"Dir"`
	}
	if err := json.Unmarshal(text, &module); err != nil {
		t.Fatalf("find OCM's APIs: %v", err)
	}
	return filepath.Join(module.Dir, file)
}
