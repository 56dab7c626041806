package packages

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/starlinghq/starling/pkg/core/kptpkg"
)

func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(1<<20, time.Minute)
		of := func(size int) kptpkg.Files { return kptpkg.Files{"a": strings.Repeat("x", size)} }
		first, err := r.enter(t.Context(), of(400<<10), of(300<<10))
		if err != nil {
			t.Fatal(err)
		}
		second, err := r.enter(t.Context(), of(200<<10))
		if err != nil {
			t.Fatalf("what fits beside it: %v", err)
		}
		// What is larger than all waits for all to leave, and those behind it wait, too.
		order := make(chan string, 2)
		go func() {
			leave, err := r.enter(t.Context(), of(3<<20))
			if err != nil {
				t.Error(err)
				return
			}
			order <- "large"
			leave()
		}()
		synctest.Wait()
		go func() {
			leave, err := r.enter(t.Context(), of(1))
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
		// Who waits too long is told when to come again; whose request ends is told that.
		leave, err := r.enter(t.Context(), of(1<<20))
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := r.enter(t.Context(), of(1)); !apierrors.IsTooManyRequests(err) {
			t.Errorf("after too long: %v", err)
		} else if after, ok := apierrors.SuggestsClientDelay(err); !ok || after < 1 {
			t.Errorf("not told when to come again: %v", err)
		}
		if took := time.Since(began); took != time.Minute {
			t.Errorf("waited for %s", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.enter(ctx, of(1)); !apierrors.IsTimeout(err) {
			t.Errorf("a request that ends: %v", err)
		}
		leave()
		if leave, err = r.enter(t.Context(), of(1<<20)); err != nil {
			t.Fatalf("who gave up holds something: %v", err)
		}
		leave()
	})
}
