package credentials

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/starlinghq/starling/pkg/hostedspace"
	"github.com/starlinghq/starling/pkg/install/chart"
	"github.com/starlinghq/starling/pkg/install/token"
)

const (
	// retryInterval is how often something is tried again that cannot be done yet.
	retryInterval = 2 * time.Second

	// requestTimeout is much longer than an API server needs to respond. Nothing is watched.
	requestTimeout = 30 * time.Second
)

// Syncer writes Secrets with credentials.
type Syncer struct {
	space, host kubernetes.Interface
	request     *Request
	clock       clock.PassiveClock

	// mu guards out.
	mu  sync.Mutex
	out io.Writer
}

// New returns a Syncer that requests tokens in a space and writes Secrets in the hosting cluster.
// It writes a line for each Secret to out.
func New(space, host *rest.Config, r *Request, now clock.PassiveClock, out io.Writer) (*Syncer, error) {
	spaceClient, err := newClient(space, r)
	if err != nil {
		return nil, err
	}
	hostClient, err := newClient(host, r)
	if err != nil {
		return nil, err
	}
	return &Syncer{space: spaceClient, host: hostClient, request: r, clock: now, out: out}, nil
}

func newClient(config *rest.Config, r *Request) (kubernetes.Interface, error) {
	config = rest.CopyConfig(config)
	config.Timeout = min(requestTimeout, r.Timeout)
	return kubernetes.NewForConfig(config)
}

// Sync renews the credentials that need it. It waits for a space or a ServiceAccount that does not
// exist yet. What prevents one credential does not prevent the others: the error is about all that
// are not as they should be.
func (s *Syncer) Sync(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, s.request.Timeout)
	defer cancel()
	if err := s.retry(limited, s.checkSpace); err != nil {
		return err
	}
	problems := make([]error, len(s.request.Credentials))
	var group sync.WaitGroup
	for i, c := range s.request.Credentials {
		group.Go(func() {
			problems[i] = s.retry(limited, func(ctx context.Context) error { return s.sync(ctx, c) })
		})
	}
	group.Wait()
	return errors.Join(problems...)
}

// retry calls do until it succeeds, its error is final, or the time is over.
func (s *Syncer) retry(ctx context.Context, do func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, retryInterval, true, func(ctx context.Context) (bool, error) {
		err := do(ctx)
		if err == nil || final(err) {
			return err == nil, err
		}
		if ctx.Err() == nil || last == nil { // otherwise it was interrupted: what it waited for says more
			s.waits(last, err)
			last = err
		}
		return false, nil
	})
	if wait.Interrupted(err) && last != nil {
		return fmt.Errorf("not within %s: %w", s.request.Timeout, last)
	}
	return err
}

// waits prints why a credential waits, unless that was printed last.
func (s *Syncer) waits(last, now error) {
	if last == nil || last.Error() != now.Error() {
		s.say("Waiting: %v", now)
	}
}

// checkSpace returns a WrongSpaceError if the space is recorded to be another one: the identities
// of all WDSes have the same names. A space in which nothing is installed yet has no record.
func (s *Syncer) checkSpace(ctx context.Context) error {
	namespace, err := s.space.CoreV1().Namespaces().Get(ctx, chart.Namespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if apierrors.IsUnauthorized(err) {
		return fmt.Errorf("connect to space %q: its API server refuses the credentials of the kubeconfig: if they have expired, write new ones: %w", s.request.Space, err)
	}
	if err != nil {
		return fmt.Errorf("get Namespace %q of space %q: %w", chart.Namespace, s.request.Space, err)
	}
	if name := hostedspace.RecordOf(namespace).Name; name != "" && name != s.request.Space {
		return &WrongSpaceError{Want: s.request.Space, Recorded: name}
	}
	return nil
}

// shortLifetimeError means that a token was written that expires before it is renewed.
type shortLifetimeError struct {
	name                 string
	granted, renewBefore time.Duration
}

// Error implements error.
func (e *shortLifetimeError) Error() string {
	return fmt.Sprintf("renew credential %q: the space granted a lifetime of %s only, less than --renew-before %s: "+
		"the token may expire before it is renewed. Raise --service-account-max-token-expiration of its API server, or run this command more often with a smaller --renew-before",
		e.name, e.granted, e.renewBefore)
}

// final reports whether it is of no use to wait until the error heals.
func final(err error) bool {
	if _, ok := errors.AsType[*ForeignError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*WrongSpaceError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*shortLifetimeError](err); ok {
		return true
	}
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsInvalid(err)
}

// sync renews one credential if it needs that.
func (s *Syncer) sync(ctx context.Context, c Credential) error {
	r := s.request
	name := r.secretName(c)
	secret, err := s.host.CoreV1().Secrets(r.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		secret, err = nil, nil
	}
	if err != nil {
		return fmt.Errorf("get Secret \"%s/%s\" of the hosting cluster: %w", r.Namespace, name, err)
	}
	reason, err := decide(r, c, secret, s.clock.Now())
	if err != nil {
		return err
	}
	if reason == "" {
		accepted, err := s.accepts(ctx, c, secret)
		if err != nil {
			return err
		}
		if accepted {
			s.say("Secret %s/%s is valid until %s", r.Namespace, name, secret.Annotations[ExpiresAnnotation])
			return nil
		}
		reason = "the space does not accept its token"
	}
	return s.renew(ctx, c, secret, reason)
}

// accepts reports whether the space accepts the token of a Secret as one of its ServiceAccount. It
// does not if it was rebuilt, or if the ServiceAccount was deleted and created again.
func (s *Syncer) accepts(ctx context.Context, c Credential, secret *corev1.Secret) (bool, error) {
	review, err := s.space.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: string(secret.Data[keyToken])},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("review the token of credential %q in space %q: %w", c.Name, s.request.Space, err)
	}
	return review.Status.Authenticated && review.Status.User.Username == c.Account.User(), nil
}

// renew requests a token and writes it. A Secret that has changed since it was read is not
// overwritten.
func (s *Syncer) renew(ctx context.Context, c Credential, old *corev1.Secret, reason string) error {
	r := s.request
	now := s.clock.Now()
	text, expires, err := token.Request(ctx, s.space, c.Account, r.Lifetime)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("renew credential %q: space %q has no ServiceAccount %q yet; \"starling space install\" creates it: %w", c.Name, r.Space, c.Account, err)
	}
	if err != nil {
		return fmt.Errorf("renew credential %q in space %q: %w", c.Name, r.Space, err)
	}
	secret, err := desired(r, c, old, text, expires)
	if err != nil {
		return err
	}
	secrets := s.host.CoreV1().Secrets(r.Namespace)
	if old == nil {
		_, err = secrets.Create(ctx, secret, metav1.CreateOptions{})
	} else {
		_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("write Secret \"%s/%s\" of the hosting cluster: %w", secret.Namespace, secret.Name, err)
	}
	s.say("Wrote Secret %s/%s, valid until %s, because %s", secret.Namespace, secret.Name, secret.Annotations[ExpiresAnnotation], reason)
	if granted := expires.Sub(now); granted < r.RenewBefore {
		return &shortLifetimeError{name: c.Name, granted: granted.Round(time.Minute), renewBefore: r.RenewBefore}
	}
	return nil
}

func (s *Syncer) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, format+"\n", args...)
}
