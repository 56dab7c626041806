package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
)

// TestTrust: the authorities of a proxy are added to those of the kubeconfig.
func TestTrust(t *testing.T) {
	pem := func(name string) []byte {
		text, _, err := cert.GenerateSelfSignedCertKey(name, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	write := func(text []byte) string {
		file := filepath.Join(t.TempDir(), "ca.crt")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	hub, proxy := pem("hub"), pem("proxy")
	for name, config := range map[string]rest.Config{
		"Data": {TLSClientConfig: rest.TLSClientConfig{CAData: hub}},
		"File": {TLSClientConfig: rest.TLSClientConfig{CAFile: write(hub)}},
		"None": {},
	} {
		t.Run(name, func(t *testing.T) {
			if err := trust(&config, write(proxy)); err != nil {
				t.Fatal(err)
			}
			want := string(proxy)
			if name != "None" {
				want = string(hub) + "\n" + want
			}
			if got := strings.TrimPrefix(string(config.CAData), "\n"); got != want || config.CAFile != "" {
				t.Errorf("authorities %s and file %q, want %s", got, config.CAFile, want)
			}
			if certs, err := cert.ParseCertsPEM(config.CAData); err != nil || len(certs) != strings.Count(want, "BEGIN CERTIFICATE") {
				t.Errorf("%d certificates, error %v", len(certs), err)
			}
		})
	}
	for name, file := range map[string]string{"NoFile": "/none", "NoCertificate": write([]byte("x"))} {
		t.Run(name, func(t *testing.T) {
			if err := trust(&rest.Config{}, file); err == nil || !strings.Contains(err.Error(), "--hub-ca-bundle") {
				t.Errorf("error %v", err)
			}
		})
	}
}
