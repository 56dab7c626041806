package forecast

import (
	"fmt"
	"testing"
)

// BenchmarkLarge forecasts the edit of one object, and a label of one cluster, in a space of
// 100,000 objects in 100 policies and 1,000 clusters.
func BenchmarkLarge(b *testing.B) {
	w := newWorld()
	for n := range 100 {
		w.policy(fmt.Sprint("p", n), fmt.Sprint("app=", n), "site="+fmt.Sprint(n%10))
		w.object(fmt.Sprint("Namespace/n", n), fmt.Sprint("app=", n), "")
	}
	for n := range 100_000 {
		w.object(fmt.Sprintf("ConfigMap/n%d/o%d", n%100, n), fmt.Sprint("app=", n%100), "a=1")
	}
	for n := range 1000 {
		w.cluster(fmt.Sprint("c", n), "site="+fmt.Sprint(n%10))
	}
	before := w.bound()
	for name, change := range map[string]func(w *World){
		"Edit":    func(w *World) { w.object("ConfigMap/n1/o1", "app=1", "a=2") },
		"Cluster": func(w *World) { w.cluster("c1", "site=2") },
		"Policy":  func(w *World) { w.policy("new", "app=1", "site=2") },
	} {
		after := before.Clone()
		change(after)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				c := Compare(before, after)
				c.Needs()
				c.Forecast()
			}
		})
	}
}
