package store

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
)

func TestRenderLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRenderLimiter(1<<20, time.Minute)
		of := func(size int) kpt.Files { return kpt.Files{"a": strings.Repeat("x", size)} }
		first, err := r.acquire(t.Context(), of(400<<10), of(300<<10))
		if err != nil {
			t.Fatal(err)
		}
		second, err := r.acquire(t.Context(), of(200<<10))
		if err != nil {
			t.Fatalf("what fits beside it: %v", err)
		}
		// Files larger than the limit wait until everything else has finished, and later requests
		// wait behind them.
		order := make(chan string, 2)
		go func() {
			leave, err := r.acquire(t.Context(), of(3<<20))
			if err != nil {
				t.Error(err)
				return
			}
			order <- "large"
			leave()
		}()
		synctest.Wait()
		go func() {
			leave, err := r.acquire(t.Context(), of(1))
			if err != nil {
				t.Error(err)
				return
			}
			order <- "small"
			leave()
		}()
		synctest.Wait()
		if len(order) > 0 {
			t.Errorf("%s is in", <-order)
		}
		first()
		second()
		if a, b := <-order, <-order; a != "large" || b != "small" {
			t.Errorf("%s, %s; who came first is first", a, b)
		}
		// A request that waits too long gets an error with a delay for its retry. One whose context
		// ends gets a timeout.
		leave, err := r.acquire(t.Context(), of(1<<20))
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := r.acquire(t.Context(), of(1)); !apierrors.IsTooManyRequests(err) {
			t.Errorf("after too long: %v", err)
		} else if after, ok := apierrors.SuggestsClientDelay(err); !ok || after < 1 {
			t.Errorf("the error has no delay for a retry: %v", err)
		}
		if took := time.Since(began); took != time.Minute {
			t.Errorf("waited for %s", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.acquire(ctx, of(1)); !apierrors.IsTimeout(err) {
			t.Errorf("a request that ends: %v", err)
		}
		leave()
		if leave, err = r.acquire(t.Context(), of(1<<20)); err != nil {
			t.Fatalf("who gave up holds something: %v", err)
		}
		leave()
	})
}
