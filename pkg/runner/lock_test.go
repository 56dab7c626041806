package runner

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

// latency is how long a request takes, and as long its answer, and an event of a watch.
const latency = 10 * time.Millisecond

// server is an API server with Leases.
type server struct {
	mu      sync.Mutex
	leases  map[string]*coordinationv1.Lease
	version int
	watches map[*watching]bool
}

func newServer() *server {
	return &server{leases: map[string]*coordinationv1.Lease{}, watches: map[*watching]bool{}}
}

// put changes a Lease, and notifies the watches. The caller has the mutex.
func (s *server) put(event watch.EventType, lease *coordinationv1.Lease) *coordinationv1.Lease {
	s.version++
	lease = lease.DeepCopy()
	lease.ResourceVersion = fmt.Sprint(s.version)
	s.leases[lease.Name] = lease
	if event == watch.Deleted {
		delete(s.leases, lease.Name)
	}
	for w := range s.watches {
		if w.name == lease.Name {
			w.queue <- watch.Event{Type: event, Object: lease.DeepCopy()}
		}
	}
	return lease.DeepCopy()
}

// state is how a network is.
type state int

const (
	up     state = iota
	refuse       // every request fails at once, and no watch goes on
	lose         // nothing that is sent arrives, and nothing fails
	mute         // requests arrive, answers and events do not
	slow         // answers and events take seconds
	dead         // as lose; the process was killed
)

// network connects one process with the server.
type network struct {
	coordinationv1client.LeaseInterface
	server *server
	// forbidden is whether the process may not watch.
	forbidden bool

	mu      sync.Mutex
	state   state
	changed chan struct{}
	random  *rand.Rand
	// requests are how often each verb was used.
	requests map[string]int
}

func (s *server) connect(random *rand.Rand) *network {
	return &network{server: s, changed: make(chan struct{}), random: random, requests: map[string]int{}}
}

func (n *network) Leases(string) coordinationv1client.LeaseInterface { return n }

func (n *network) set(s state) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state == dead {
		return
	}
	n.state = s
	close(n.changed)
	n.changed = make(chan struct{})
}

func (n *network) now() (s state, changed <-chan struct{}, delay time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state == slow {
		return n.state, n.changed, time.Duration(n.random.Int64N(int64(15 * time.Second)))
	}
	return n.state, n.changed, latency
}

var errRefused = errors.New("connection refused")

// send does a request: it takes some time until it arrives, and some until the answer is back.
func (n *network) send(ctx context.Context, verb string, do func() error) error {
	n.mu.Lock()
	n.requests[verb]++
	n.mu.Unlock()
	if err := sleep(ctx, latency); err != nil {
		return err
	}
	switch s, _, _ := n.now(); s {
	case refuse:
		return errRefused
	case lose, dead:
		<-ctx.Done()
		return ctx.Err()
	default:
	}
	n.server.mu.Lock()
	err := do()
	n.server.mu.Unlock()
	s, _, delay := n.now()
	if s == mute {
		<-ctx.Done()
		return ctx.Err()
	}
	if err := sleep(ctx, delay); err != nil {
		return err
	}
	return err
}

func sleep(ctx context.Context, duration time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(duration):
		return nil
	}
}

func (n *network) Get(ctx context.Context, name string, _ metav1.GetOptions) (lease *coordinationv1.Lease, err error) {
	return lease, n.send(ctx, "get", func() error {
		if lease = n.server.leases[name].DeepCopy(); lease == nil {
			return apierrors.NewNotFound(coordinationv1.Resource("leases"), name)
		}
		return nil
	})
}

func (n *network) Create(ctx context.Context, in *coordinationv1.Lease, _ metav1.CreateOptions) (lease *coordinationv1.Lease, err error) {
	return lease, n.send(ctx, "create", func() error {
		if n.server.leases[in.Name] != nil {
			return apierrors.NewAlreadyExists(coordinationv1.Resource("leases"), in.Name)
		}
		lease = n.server.put(watch.Added, in)
		return nil
	})
}

func (n *network) Update(ctx context.Context, in *coordinationv1.Lease, _ metav1.UpdateOptions) (lease *coordinationv1.Lease, err error) {
	return lease, n.send(ctx, "update", func() error {
		old := n.server.leases[in.Name]
		if old == nil {
			return apierrors.NewNotFound(coordinationv1.Resource("leases"), in.Name)
		}
		if old.ResourceVersion != in.ResourceVersion {
			return apierrors.NewConflict(coordinationv1.Resource("leases"), in.Name, errors.New("it was changed"))
		}
		lease = n.server.put(watch.Modified, in)
		return nil
	})
}

// watching is a watch of one Lease.
type watching struct {
	name          string
	queue, result chan watch.Event
	stop          context.CancelFunc
}

func (w *watching) ResultChan() <-chan watch.Event { return w.result }
func (w *watching) Stop()                          { w.stop() }

func (n *network) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	w := &watching{name: strings.TrimPrefix(options.FieldSelector, "metadata.name="), queue: make(chan watch.Event, 10000), result: make(chan watch.Event)}
	ctx, w.stop = context.WithCancel(ctx)
	err := n.send(ctx, "watch", func() error {
		if n.forbidden {
			return apierrors.NewForbidden(coordinationv1.Resource("leases"), w.name, errors.New("no right"))
		}
		n.server.watches[w] = true
		if lease := n.server.leases[w.name]; lease != nil {
			w.queue <- watch.Event{Type: watch.Added, Object: lease.DeepCopy()}
		}
		return nil
	})
	if err != nil {
		w.stop()
		return nil, err
	}
	go n.deliver(ctx, w)
	return w, nil
}

// deliver passes events on, when the network does, until the watch ends.
func (n *network) deliver(ctx context.Context, w *watching) {
	defer close(w.result)
	defer func() {
		n.server.mu.Lock()
		defer n.server.mu.Unlock()
		delete(n.server.watches, w)
	}()
	for {
		s, changed, delay := n.now()
		queue := w.queue
		switch s {
		case refuse:
			return
		case lose, mute, dead:
			queue = nil
		default:
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case event := <-queue:
			if sleep(ctx, delay) != nil {
				return
			}
			select {
			case w.result <- event:
			case <-ctx.Done():
				return
			}
		}
	}
}

// logs are what a process logs.
type logs struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// process is a candidate for Leases.
type process struct {
	*network
	candidate *candidate
	windUp    time.Duration
	cancel    context.CancelFunc
	log       logs
	// runs and leads are closed when the program runs, and when it leads, ended when it has ended
	// with err.
	runs, leads, ended chan struct{}
	err                error
}

// cluster has processes of which at most one may act for each Lease.
type cluster struct {
	t *testing.T
	*server
	count int

	mu     sync.Mutex
	acting map[string]*process
}

func newCluster(t *testing.T) *cluster {
	return &cluster{t: t, server: newServer(), acting: map[string]*process{}}
}

// start starts a process that takes some time to end its work.
func (c *cluster) start(n *network, windUp time.Duration, leases ...string) *process {
	c.count++
	p := &process{network: n, windUp: windUp, runs: make(chan struct{}), leads: make(chan struct{}), ended: make(chan struct{})}
	ctx := context.Background()
	ctx, p.cancel = context.WithCancel(klog.NewContext(ctx, textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&p.log)))))
	p.candidate = newCandidate(Program{Name: "test", Leases: leases, Ready: func() error { return nil }, Run: func(ctx context.Context, leading <-chan struct{}) error {
		close(p.runs)
		select {
		case <-leading:
		case <-ctx.Done():
			return nil
		}
		close(p.leads)
		c.acts(p)
		<-ctx.Done()
		time.Sleep(p.windUp)
		c.rests(p)
		return nil
	}})
	identity := fmt.Sprint("process-", c.count)
	go func() {
		defer close(p.ended)
		defer p.cancel()
		p.err = p.candidate.leadAs(ctx, n, identity)
	}()
	return p
}

func (c *cluster) acts(p *process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, lease := range p.candidate.leases {
		if other := c.acting[lease]; other != nil {
			c.t.Errorf("two processes act for Lease %s", lease)
		}
		c.acting[lease] = p
	}
}

func (c *cluster) rests(p *process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, lease := range p.candidate.leases {
		if c.acting[lease] == p {
			delete(c.acting, lease)
		}
	}
}

// kill ends a process as SIGKILL does.
func (c *cluster) kill(p *process) {
	p.set(dead)
	c.rests(p)
	p.cancel()
}

// within fails the test if a channel is not closed within this time. It returns the time.
func within(t *testing.T, limit time.Duration, what string, closed <-chan struct{}) time.Duration {
	t.Helper()
	begin := time.Now()
	select {
	case <-closed:
	case <-time.After(time.Hour):
		t.Fatalf("%s: not after an hour", what)
	}
	after := time.Since(begin)
	if after > limit {
		t.Errorf("%s after %s, want %s", what, after, limit)
	}
	return after
}

// TestFailOver: when the leader ends, or is killed, another process leads soon.
func TestFailOver(t *testing.T) {
	const (
		acquire = 5 * latency                    // an event, and two requests
		retry   = retryPeriod*22/10 + 10*latency // of an elector
	)
	for _, c := range []struct {
		name          string
		forbidden     bool
		leases        []string
		ended, killed time.Duration
	}{
		{name: "OneLease", leases: []string{"a"}, ended: acquire, killed: leaseDuration + acquire},
		{name: "ThreeLeases", leases: []string{"a", "b", "c"}, ended: 3 * acquire, killed: leaseDuration + 3*acquire},
		{name: "MayNotWatch", forbidden: true, leases: []string{"a"}, ended: retry, killed: leaseDuration + 2*retry},
		{name: "MayNotWatchThreeLeases", forbidden: true, leases: []string{"a", "b", "c"}, ended: retry, killed: 3 * (leaseDuration + 2*retry)},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := newCluster(t)
				connect := func() *network {
					n := cluster.connect(nil)
					n.forbidden = c.forbidden
					return n
				}
				start := func() *process { return cluster.start(connect(), time.Second, c.leases...) }
				first := start()
				within(t, 200*time.Millisecond, "the first process leads", first.leads)
				second := start()
				within(t, 100*time.Millisecond, "the second process stands by", second.runs)
				time.Sleep(time.Minute)
				if isClosed(second.leads) {
					t.Fatal("the second process leads")
				}
				first.cancel()
				<-first.ended
				within(t, c.ended, "the second process leads", second.leads)

				third, fourth := start(), start()
				within(t, 100*time.Millisecond, "the third process stands by", third.runs)
				time.Sleep(time.Minute)
				cluster.kill(second)
				var next, last *process
				begin := time.Now()
				select {
				case <-third.leads:
					next, last = third, fourth
				case <-fourth.leads:
					next, last = fourth, third
				}
				if after := time.Since(begin); after > c.killed || after < giveUp-retryPeriod {
					t.Errorf("another process leads after %s, want %s; until %s the leader may act", after, c.killed, giveUp)
				}
				next.cancel()
				<-next.ended
				within(t, retry, "the last process leads", last.leads) // it may have tried to acquire the Lease before
				last.cancel()
				<-last.ended
				if next.err != nil || last.err != nil {
					t.Errorf("processes ended with %v, %v", next.err, last.err)
				}
			})
		})
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// TestLeaderIsCutOff: a leader whose renewals do not succeed ends its work before another process
// acts, and does not release its Lease before, even if it could again. It releases it afterwards.
func TestLeaderIsCutOff(t *testing.T) {
	for name, s := range map[string]state{"Refused": refuse, "Lost": lose, "NoAnswer": mute, "Slow": slow} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				n := c.connect(rand.New(rand.NewPCG(1, 2)))
				first := c.start(n, leaseDuration-giveUp-100*time.Millisecond, "a", "b")
				<-first.leads
				second := c.start(c.connect(nil), 0, "a", "b")
				<-second.runs
				time.Sleep(time.Minute)
				n.set(s)
				<-second.leads
				<-first.ended
				if !errors.Is(first.err, errLeaseLost) {
					t.Errorf("the first process ended with %v", first.err)
				}
				second.cancel()
				<-second.ended
			})
		})
	}
}

// TestCannotReachTheServer: a process that cannot reach the server, or gets no answers, logs it,
// and leads soon when it can. It does not wait for an answer to what it has sent before.
func TestCannotReachTheServer(t *testing.T) {
	for name, s := range map[string]state{"Refused": refuse, "Lost": lose, "NoAnswer": mute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				n := c.connect(nil)
				n.set(s)
				p := c.start(n, 0, "a", "b")
				time.Sleep(time.Minute)
				if isClosed(p.runs) {
					t.Error("the program runs")
				}
				n.set(up)
				within(t, 2*(renewDeadline+retryPeriod*22/10), "it leads", p.leads)
				p.cancel()
				<-p.ended
				if !strings.Contains(p.log.text.String(), "ease lock") {
					t.Errorf("the log does not have the errors:\n%s", p.log.text.String())
				}
			})
		})
	}
}

// TestLeaseIsTaken: a leader whose Lease an administrator gives to another process, or to nobody,
// ends its work at the next renewal. The answer of the server says so.
func TestLeaseIsTaken(t *testing.T) {
	for _, holder := range []string{"other", ""} {
		t.Run(holder, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				p := c.start(c.connect(nil), 0, "a")
				<-p.leads
				time.Sleep(time.Minute)
				c.server.mu.Lock()
				lease := c.leases["a"].DeepCopy()
				lease.Spec.HolderIdentity = &holder
				c.put(watch.Modified, lease)
				c.server.mu.Unlock()
				within(t, retryPeriod+10*latency, "the process ends", p.ended)
				if !errors.Is(p.err, errLeaseLost) {
					t.Errorf("it ended with %v", p.err)
				}
			})
		})
	}
}

// TestLeaseIsDeleted: the leader creates its Lease again. A standby waits for that, in case the
// leader acts, for the duration of the Lease.
func TestLeaseIsDeleted(t *testing.T) {
	for _, forbidden := range []bool{false, true} {
		t.Run(fmt.Sprintf("MayNotWatch=%v", forbidden), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				first := c.start(c.connect(nil), 0, "a")
				<-first.leads
				n := c.connect(nil)
				n.forbidden = forbidden
				second := c.start(n, 0, "a")
				<-second.runs
				remove := func() {
					c.server.mu.Lock()
					defer c.server.mu.Unlock()
					c.put(watch.Deleted, c.leases["a"])
				}
				for range 10 {
					remove()
					time.Sleep(retryPeriod*4 + 700*time.Millisecond)
				}
				if isClosed(first.ended) || isClosed(second.leads) {
					t.Fatal("the second process leads")
				}
				first.set(lose)
				remove()
				<-second.leads
				<-first.ended
				second.cancel()
				<-second.ended
			})
		})
	}
}

// stopped is a Lease whose writes succeed, and take longer than a request may: the process was
// stopped meanwhile.
type stopped struct{ resourcelock.Interface }

func (stopped) Update(context.Context, resourcelock.LeaderElectionRecord) error {
	time.Sleep(giveUp)
	return nil
}

// TestProcessIsStopped: a process that was stopped while it acquired the Lease does not act.
func TestProcessIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lock{Interface: stopped{}, lost: func() { t.Error("the Lease is lost") }, stopWatch: func() { t.Error("the Lease is acquired") }}
		if err := l.Update(t.Context(), resourcelock.LeaderElectionRecord{}); !errors.Is(err, errLate) || l.acquired {
			t.Errorf("acquired: %v, error %v, want %v", l.acquired, err, errLate)
		}
	})
}
