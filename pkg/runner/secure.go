package runner

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	certutil "k8s.io/client-go/util/cert"
)

const secureFlag = "secure-metrics-address"

// secureOptions are the flags for metrics and profiles over TLS.
type secureOptions struct {
	address, kubeconfig, certDir string
}

func (s *secureOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&s.address, secureFlag, s.address,
		"Serve /metrics, and /debug/pprof with --pprof, over TLS at this host:port, and not at --health-address. A cluster authenticates the "+
			"clients by their tokens, and authorizes them.")
	flags.StringVar(&s.kubeconfig, "secure-metrics-kubeconfig", s.kubeconfig,
		"Kubeconfig of the cluster that authenticates and authorizes the clients of --"+secureFlag+". If empty, it is the service account of the pod.")
	flags.StringVar(&s.certDir, "secure-metrics-cert-dir", s.certDir,
		"Directory with the certificate tls.crt and the key tls.key for --"+secureFlag+". They may be renewed. If empty, a self-signed certificate is created.")
}

// guard lets only those requests through whose client a cluster authenticates and authorizes.
type guard struct {
	tls  *tls.Config
	who  authenticator.Request
	may  authorizer.Authorizer
	next http.Handler
}

// newGuard returns a guard. It does not connect to the cluster.
func (s *secureOptions) newGuard() (*guard, error) {
	config, err := s.cluster()
	if err != nil {
		return nil, fmt.Errorf("authenticate clients of --%s: %w", secureFlag, err)
	}
	certificate, err := s.certificate()
	if err != nil {
		return nil, fmt.Errorf("serve at --%s: %w", secureFlag, err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("build client for TokenReviews: %w", err)
	}
	const (
		// A client whose rights are withdrawn reads on for that long at most.
		trusted = 10 * time.Second
		timeout = 10 * time.Second
	)
	backoff := &wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 3}
	who, _, err := authenticatorfactory.DelegatingAuthenticatorConfig{
		TokenAccessReviewClient: client.AuthenticationV1(), TokenAccessReviewTimeout: timeout, WebhookRetryBackoff: backoff, CacheTTL: trusted,
	}.New()
	if err != nil {
		return nil, fmt.Errorf("set up authentication: %w", err)
	}
	may, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: client.AuthorizationV1(), AllowCacheTTL: trusted, DenyCacheTTL: trusted, WebhookRetryBackoff: backoff,
	}.New()
	if err != nil {
		return nil, fmt.Errorf("set up authorization: %w", err)
	}
	return &guard{
		who: who, may: may,
		tls: &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, GetCertificate: certificate},
	}, nil
}

// cluster returns how to connect to the cluster that knows the clients.
func (s *secureOptions) cluster() (*rest.Config, error) {
	config, err := rest.InClusterConfig()
	if s.kubeconfig != "" {
		config, err = clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	} else if errors.Is(err, rest.ErrNotInCluster) {
		err = errors.New("this process does not run in a pod: set --secure-metrics-kubeconfig")
	}
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 50, 100
	return config, nil
}

// certificate returns what provides the certificate for each connection.
func (s *secureOptions) certificate() (func(*tls.ClientHelloInfo) (*tls.Certificate, error), error) {
	load := func() (tls.Certificate, error) {
		return tls.LoadX509KeyPair(filepath.Join(s.certDir, "tls.crt"), filepath.Join(s.certDir, "tls.key"))
	}
	if s.certDir == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("get the name of this host: %w", err)
		}
		certificate, key, err := certutil.GenerateSelfSignedCertKey(host, []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
		if err != nil {
			return nil, fmt.Errorf("create a certificate: %w", err)
		}
		pair, err := tls.X509KeyPair(certificate, key)
		if err != nil {
			return nil, fmt.Errorf("create a certificate: %w", err)
		}
		return func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil }, nil
	}
	if _, err := load(); err != nil {
		return nil, fmt.Errorf("read the certificate: %w", err)
	}
	// Files are read for each connection, of which there are few: a renewal needs no restart.
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		pair, err := load()
		return &pair, err
	}, nil
}

// ServeHTTP implements http.Handler.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// An error is logged where it arises.
	client, known, err := g.who.AuthenticateRequest(r)
	if !known || err != nil {
		http.Error(w, "unauthorized", http.StatusUnauthorized)
		return
	}
	verb := strings.ToLower(r.Method)
	decision, _, err := g.may.Authorize(r.Context(), authorizer.AttributesRecord{User: client.User, Verb: verb, Path: r.URL.Path})
	switch {
	case decision == authorizer.DecisionAllow:
		g.next.ServeHTTP(w, r)
	case err != nil:
		http.Error(w, "cannot authorize the request", http.StatusInternalServerError)
	default:
		http.Error(w, fmt.Sprintf("forbidden: User %q cannot %s path %q", client.User.GetName(), verb, r.URL.Path), http.StatusForbidden)
	}
}
