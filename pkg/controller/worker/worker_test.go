package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var pods = schema.GroupResource{Resource: "pods"}

// TestSync has one key synced with results one after the other, and compares when the attempts were
// made.
func TestSync(t *testing.T) {
	type step struct {
		result Result
		err    error
	}
	boom := errors.New("boom")
	for name, tc := range map[string]struct {
		quiet     func(error) bool
		steps     []step // after the last one, sync returns Result{}, nil
		want      []time.Duration
		wantError int // lines of errors
	}{
		"nothing to wait for":   {want: []time.Duration{0}},
		"requeued by a result":  {steps: []step{{result: Result{After: time.Second}}}, want: []time.Duration{0, time.Second}},
		"negative is no result": {steps: []step{{result: Result{After: -time.Second}}}, want: []time.Duration{0}},
		"errors back off": {
			steps: []step{{err: boom}, {err: boom}, {err: boom}, {err: boom}}, wantError: 4,
			want: []time.Duration{0, 10 * time.Millisecond, 30 * time.Millisecond, 70 * time.Millisecond, 110 * time.Millisecond},
		},
		"success resets the back-off": {
			steps: []step{{err: boom}, {err: boom}, {result: Result{After: time.Millisecond}}, {err: boom}}, wantError: 3,
			want: []time.Duration{0, 10 * time.Millisecond, 30 * time.Millisecond, 31 * time.Millisecond, 41 * time.Millisecond},
		},
		"a postponed sync keeps the back-off": {
			steps: []step{{err: boom}, {result: Result{After: time.Second, KeepBackOff: true}}, {err: boom}}, wantError: 2,
			want: []time.Duration{0, 10 * time.Millisecond, 1010 * time.Millisecond, 1030 * time.Millisecond},
		},
		"stale errors are quiet": {
			steps: []step{
				{err: apierrors.NewConflict(pods, "a", boom)}, {err: apierrors.NewAlreadyExists(pods, "a")}, {err: fmt.Errorf("write: %w", ErrStale)},
			},
			want: []time.Duration{0, 10 * time.Millisecond, 30 * time.Millisecond, 70 * time.Millisecond},
		},
		"other errors are not": {
			steps: []step{{err: apierrors.NewNotFound(pods, "a")}}, wantError: 1, want: []time.Duration{0, 10 * time.Millisecond},
		},
		"unless the controller says so": {
			quiet: apierrors.IsNotFound,
			steps: []step{{err: apierrors.NewNotFound(pods, "a")}}, want: []time.Duration{0, 10 * time.Millisecond},
		},
		"terminal errors are reported and not retried": {
			steps: []step{{err: fmt.Errorf("apply: %w", &TerminalError{boom})}}, wantError: 1, want: []time.Duration{0},
		},
		"a terminal error may have a result": {
			steps: []step{{result: Result{After: time.Hour}, err: &TerminalError{boom}}}, wantError: 1, want: []time.Duration{0, time.Hour},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				ctx, log := logged(ctx)
				var got []time.Duration
				start := time.Now()
				q := New(Config{Name: "test", MinBackOff: 10 * time.Millisecond, MaxBackOff: 40 * time.Millisecond, Quiet: tc.quiet},
					func(context.Context, string) (Result, error) {
						got = append(got, time.Since(start))
						if len(got) > len(tc.steps) {
							return Result{}, nil
						}
						return tc.steps[len(got)-1].result, tc.steps[len(got)-1].err
					})
				q.Add("a")
				time.AfterFunc(24*time.Hour, cancel)
				q.Run(ctx, 1)
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("attempts (-want +got):\n%s", diff)
				}
				errs := slices.DeleteFunc(log.lines(), func(line string) bool { return !strings.HasPrefix(line, "E") })
				if len(errs) != tc.wantError {
					t.Errorf("want %d errors in the log, got %q", tc.wantError, errs)
				}
				for _, line := range errs {
					if !strings.Contains(line, `controller="test" key="a"`) {
						t.Errorf("line without controller and key: %s", line)
					}
				}
			})
		})
	}
}

func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ctx, log := logged(ctx)
		var synced []string
		panics := 2
		q := New(Config{Name: "test"}, func(_ context.Context, key string) (Result, error) {
			if key == "bad" && panics > 0 {
				panics--
				panic("of a test")
			}
			synced = append(synced, key)
			return Result{}, nil
		})
		q.Add("bad")
		q.Add("good")
		time.AfterFunc(time.Hour, cancel)
		q.Run(ctx, 1)
		if diff := cmp.Diff([]string{"good", "bad"}, synced); diff != "" {
			t.Errorf("keys (-want +got):\n%s", diff)
		}
		if text := strings.Join(log.lines(), "\n"); !strings.Contains(text, `"Observed a panic" controller="test" key="bad"`) ||
			!strings.Contains(text, `err="panic: of a test"`) {
			t.Errorf("the log does not report the panic:\n%s", text)
		}
	})
}

func TestRunWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ctx, _ = logged(ctx)
		start := time.Now()
		after := func(d time.Duration) func() bool { return func() bool { return time.Since(start) >= d } }
		var begun, ended time.Duration
		q := New(Config{Name: "test"}, func(context.Context, string) (Result, error) {
			begun = time.Since(start)
			time.Sleep(time.Hour)
			ended = time.Since(start)
			return Result{}, errors.New("too late to be retried")
		})
		q.WaitFor("Pods", after(time.Second))
		q.WaitFor("Secrets", after(2*time.Second))
		for _, step := range []struct {
			sleep time.Duration
			want  string
		}{{0, "not synced yet: Pods, Secrets"}, {time.Second, "not synced yet: Secrets"}, {time.Second, "<nil>"}} {
			time.Sleep(step.sleep)
			if fmt.Sprint(q.Ready()) != step.want {
				t.Errorf("Ready() = %v, want %s", q.Ready(), step.want)
			}
		}
		start = time.Now()
		q.Add("a")
		time.AfterFunc(time.Minute, cancel)
		q.Run(ctx, 3)
		if begun < 2*time.Second || begun > 3*time.Second || ended != begun+time.Hour {
			t.Errorf("sync began after %s, and Run returned after %s", begun, ended)
		}
	})
}

func TestRunEndsBeforeSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		q := New(Config{Name: "test"}, func(context.Context, string) (Result, error) {
			t.Error("synced")
			return Result{}, nil
		})
		q.WaitFor("Pods", func() bool { return false })
		q.Add("a")
		time.AfterFunc(time.Minute, cancel)
		q.Run(ctx, 1)
		if !q.ShuttingDown() {
			t.Error("the queue is not shut down")
		}
	})
}

// lines is a log.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(text))
	return len(text), nil
}

func (l *lines) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}

func logged(ctx context.Context) (context.Context, *lines) {
	l := &lines{}
	return klog.NewContext(ctx, textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(l)))), l
}
