// Package waitfor lets a server wait until another one, which it needs, answers.
package waitfor

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
)

// Patience is how long a server waits for another one. Then it starts, and says better what is
// wrong. The startup probes of the charts allow more than twice as long.
const Patience = 2 * time.Minute

// Any blocks until one of the servers, which are URLs, answers, but not longer than the time. There
// is nothing to wait for without servers.
//
// In an installation all pods start at once. An API server ends if it cannot reach etcd for twenty
// seconds, and kube-controller-manager if the API server is not healthy for ten: on a slow node the
// kubelet would start them again with a growing delay.
func Any(ctx context.Context, servers []string, most time.Duration) {
	if len(servers) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	said := false
	err := wait.PollUntilContextCancel(ctx, 500*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		for _, server := range servers {
			if answers(ctx, server) {
				return true, nil
			}
		}
		if !said {
			klog.FromContext(ctx).Info("Waiting for a server to answer", "servers", servers)
			said = true
		}
		return false, nil
	})
	if err != nil {
		klog.FromContext(ctx).Info("No server answers; starting all the same", "servers", servers)
	}
}

// answers reports whether a server accepts connections, and with https also answers: etcd accepts
// them before it serves. A server that wants the certificate of a client answers, too.
func answers(ctx context.Context, server string) bool {
	u, err := url.Parse(server)
	if err != nil {
		return false
	}
	address := u.Host
	if u.Port() == "" {
		address = net.JoinHostPort(u.Hostname(), u.Scheme) // the name of its port
	}
	const timeout = 5 * time.Second
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	defer connection.Close()
	if u.Scheme != "https" {
		return true
	}
	// Nothing is sent that needs a peer to be trusted.
	err = tls.Client(connection, &tls.Config{ServerName: u.Hostname(), InsecureSkipVerify: true}).HandshakeContext(ctx) //nolint:gosec // see above
	var refused *net.OpError
	return err == nil || errors.As(err, &refused) && refused.Op == "remote error"
}
