package delivery

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/starlinghq/starling/pkg/core/plan"
)

// TestDeliveriesUnderWay: others must not rely on works that are being written, or may have been.
func TestDeliveriesUnderWay(t *testing.T) {
	var d deliveries
	key, now := Key{Binding: "b", Mailbox: "m"}, time.Now()
	if d.has(key, now) {
		t.Error("nothing began")
	}
	end := d.begin(key)
	if !d.has(key, now) || d.has(Key{Binding: "c", Mailbox: "m"}, now) {
		t.Error("it began")
	}
	end()
	if d.has(key, now) {
		t.Error("it ended")
	}
	end = d.begin(key)
	patch := &plan.Action{Verb: plan.Patch}
	d.doubt(key, &plan.Action{Verb: plan.Create}, context.DeadlineExceeded, now)
	d.doubt(key, patch, &net.OpError{Op: "dial", Err: errors.New("refused")}, now)
	if d.doubted(key, now) {
		t.Error("a creation, or a write that was not sent, is in doubt")
	}
	d.doubt(key, patch, context.DeadlineExceeded, now)
	end()
	if !d.has(key, now.Add(patience)) || !d.doubted(key, now.Add(patience)) || d.has(key, now.Add(patience+1)) {
		t.Error("a write was not answered")
	}
	if len(d.keys)+len(d.uncertain) > 0 {
		t.Errorf("%v, %v are remembered", d.keys, d.uncertain)
	}
}
