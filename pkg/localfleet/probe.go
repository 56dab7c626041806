package localfleet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

// Probe checks whether a component is ready. It succeeds if URL returns 200 or, without a URL, if
// TCP accepts a connection.
type Probe struct {
	URL string `json:"url,omitempty"`
	TCP string `json:"tcp,omitempty"`
	// CA, Cert and Key are PEM files. Without a CA, the server's certificate is not verified, as in
	// kubelets: nothing secret is sent.
	CA   string `json:"ca,omitempty"`
	Cert string `json:"cert,omitempty"`
	Key  string `json:"key,omitempty"`
}

const probeTimeout = 2 * time.Second

// prober runs one Probe repeatedly and reuses its connection.
type prober struct {
	probe  Probe
	client *http.Client
}

// newProber reads the files of the probe. They may be created after the component was configured.
func newProber(p Probe) (*prober, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if p.CA == "" {
		cfg.InsecureSkipVerify = true
	} else {
		pem, err := os.ReadFile(p.CA)
		if err != nil {
			return nil, err
		}
		cfg.RootCAs = x509.NewCertPool()
		cfg.RootCAs.AppendCertsFromPEM(pem)
	}
	if p.Cert != "" {
		pair, err := tls.LoadX509KeyPair(p.Cert, p.Key)
		if err != nil {
			return nil, err
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return &prober{probe: p, client: &http.Client{
		Timeout:   probeTimeout,
		Transport: &http.Transport{TLSClientConfig: cfg, MaxIdleConns: 1},
	}}, nil
}

func (p *prober) close() { p.client.CloseIdleConnections() }

// check returns nil if the component is ready, and otherwise the reason.
func (p *prober) check(ctx context.Context) error {
	if p.probe.URL == "" {
		ctx, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.probe.TCP)
		if err != nil {
			return err
		}
		return conn.Close()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.probe.URL, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection is reused
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s returned %s", p.probe.URL, resp.Status)
	}
	return nil
}
