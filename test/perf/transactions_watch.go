package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
)

// moments are when a Transaction got somewhere, as a client of the API server notices it.
type moments struct {
	name string
	// acquired and released are those of the Lock. The others are those of the conditions.
	acquired, validated, installed, ready, released time.Time
	message                                         string
	failures                                        int64
}

func (m *moments) held() time.Duration { return m.released.Sub(m.acquired) }

// transactionWatch notes the moments of all Transactions of a space.
type transactionWatch struct {
	mutex sync.Mutex
	// names are those of the Transactions of packages, by generation.
	names map[packageGeneration]string
	// seen are by the names of Transactions.
	seen   map[string]*moments
	holder string
	err    error
}

type packageGeneration struct{ name, generation string }

// watchTransactions watches until ctx ends.
func watchTransactions(ctx context.Context, s *space) (*transactionWatch, error) {
	w := &transactionWatch{names: map[packageGeneration]string{}, seen: map[string]*moments{}}
	for resource, note := range map[schema.GroupVersionResource]func(*unstructured.Unstructured, time.Time){
		pkgv1alpha1.Transactions: w.noteTransaction, pkgv1beta1.Locks: w.noteLock,
	} {
		events, err := s.dynamic.Resource(resource).Watch(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("watch %s: %w", resource.Resource, err)
		}
		go func() {
			for event := range events.ResultChan() {
				if o, ok := event.Object.(*unstructured.Unstructured); ok {
					note(o, time.Now())
				}
			}
			w.mutex.Lock()
			defer w.mutex.Unlock()
			w.err = errors.New("the watch of " + resource.Resource + " ended")
		}()
	}
	return w, nil
}

func (w *transactionWatch) of(name string) *moments {
	if w.seen[name] == nil {
		w.seen[name] = &moments{name: name}
	}
	return w.seen[name]
}

func (w *transactionWatch) noteLock(o *unstructured.Unstructured, at time.Time) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	holder := o.GetAnnotations()[pkgv1beta1.AnnotationCurrentTransaction]
	if holder == w.holder {
		return
	}
	if w.holder != "" {
		w.of(w.holder).released = at
	}
	if m := w.of(holder); holder != "" && m.acquired.IsZero() {
		m.acquired = at
	}
	w.holder = holder
}

func (w *transactionWatch) noteTransaction(o *unstructured.Unstructured, at time.Time) {
	tx := &pkgv1alpha1.Transaction{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, tx); err != nil {
		return
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.names[packageGeneration{tx.Labels[pkgv1.LabelPackage], tx.Labels[pkgv1.LabelGeneration]}] = tx.Name
	m := w.of(tx.Name)
	m.failures, m.message = tx.Status.Failures, ""
	for _, condition := range tx.Status.Conditions {
		if condition.Status == metav1.ConditionFalse {
			m.message += condition.Type + ": " + condition.Message + " "
		}
	}
	for condition, moment := range map[string]*time.Time{
		pkgv1alpha1.TransactionConditionValidated: &m.validated, pkgv1alpha1.TransactionConditionInstalled: &m.installed, "Ready": &m.ready,
	} {
		if moment.IsZero() && meta.IsStatusConditionTrue(tx.Status.Conditions, condition) {
			*moment = at
		}
	}
}

// await blocks until the Transaction of a generation of a package is ready and has released the
// Lock. A Transaction that fails is an error: its times say nothing.
func (w *transactionWatch) await(ctx context.Context, name string, generation int64) (moments, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the Transaction of %s did not end in %s", name, limit))
	defer cancel()
	for {
		w.mutex.Lock()
		m, err := moments{}, w.err
		if name, found := w.names[packageGeneration{name, fmt.Sprint(generation)}]; found {
			m = *w.of(name)
		}
		w.mutex.Unlock()
		switch {
		case err != nil:
			return m, err
		case m.failures > 0:
			return m, fmt.Errorf("transaction %s failed: %s", m.name, m.message)
		case !m.ready.IsZero() && !m.released.IsZero():
			return m, nil
		}
		if err := sleep(ctx, 5*time.Millisecond); err != nil {
			return m, err
		}
	}
}
