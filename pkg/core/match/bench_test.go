package match

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// go test -run=- -bench=. -count=10 ./pkg/core/match | tee new.txt && benchstat old.txt new.txt

var sizes = []int{1e2, 1e3, 1e4, 1e5}

// crowd is an Index of n objects in 100 namespaces, and 200 policies of which each selects one of
// 200 values of a label.
func crowd(n int) (*Index, func(i int) *metav1.ObjectMeta) {
	index := NewIndex(Options{})
	object := func(i int) *metav1.ObjectMeta {
		return &metav1.ObjectMeta{
			Namespace: fmt.Sprint("n", i%100), Name: fmt.Sprint("object-", i), UID: types.UID(fmt.Sprint("uid-", i)), ResourceVersion: fmt.Sprint(i),
			Labels: map[string]string{"env": "prod", "app": fmt.Sprint("a", i%200), "instance": fmt.Sprint(i)},
		}
	}
	for i := range 100 {
		index.SetNamespace(fmt.Sprint("n", i), map[string]string{"team": fmt.Sprint("t", i%10)})
	}
	for i := range 200 {
		p, _ := Compile(downsync(objectTest{ObjectSelectors: []metav1.LabelSelector{selector("env", "prod", "app", fmt.Sprint("a", i))}}))
		index.SetPolicy(fmt.Sprint("p", i), p)
	}
	for i := range n {
		index.SetObject(configMaps, object(i))
	}
	return index, object
}

// The cost of one event must not grow with the objects that it cannot reach.
func BenchmarkSetObject(b *testing.B) {
	for _, n := range sizes {
		index, object := crowd(n)
		b.Run(fmt.Sprintf("objects=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			relabelled := [2]*metav1.ObjectMeta{object(7), object(7)}
			relabelled[1].Labels["app"] = "a8"
			i := 0
			for b.Loop() {
				i++
				index.SetObject(configMaps, relabelled[i%2])
			}
		})
	}
}

// A policy costs what it reaches: here n/200 objects.
func BenchmarkSetPolicy(b *testing.B) {
	for _, n := range sizes {
		index, _ := crowd(n)
		b.Run(fmt.Sprintf("objects=%d", n), func(b *testing.B) {
			policies := make([]*Policy, 2)
			for i := range policies {
				policies[i], _ = Compile(downsync(objectTest{ObjectSelectors: []metav1.LabelSelector{selector("app", fmt.Sprint("a", i))}}))
			}
			i := 0
			for b.Loop() {
				i++
				index.SetPolicy("edited", policies[i%2])
			}
		})
	}
}

func BenchmarkSetCluster(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("clusters=%d", n), func(b *testing.B) {
			index := NewIndex(Options{})
			for i := range 200 {
				p, _ := Compile(&policySpec{ClusterSelectors: []metav1.LabelSelector{selector("site", fmt.Sprint(i))}})
				index.SetPolicy(fmt.Sprint("p", i), p)
			}
			for i := range n {
				index.SetCluster(fmt.Sprint("c", i), map[string]string{"site": fmt.Sprint(i % 200)})
			}
			i := 0
			for b.Loop() {
				i++
				index.SetCluster("c1", map[string]string{"site": "1", "other": fmt.Sprint(i)})
			}
		})
	}
}

func BenchmarkSnapshot(b *testing.B) {
	for _, n := range sizes {
		index, _ := crowd(n)
		p, _ := Compile(downsync(objectTest{ObjectNames: []string{"*"}}))
		index.SetPolicy("all", p)
		b.Run(fmt.Sprintf("matches=%d", n), func(b *testing.B) {
			for b.Loop() {
				index.Snapshot("all", Listed{})
			}
		})
	}
}

// BenchmarkMemory reports what the Index keeps for an object, beside the object.
func BenchmarkMemory(b *testing.B) {
	const n = 100_000
	var before, after runtime.MemStats
	for b.Loop() {
		objects := make([]*metav1.ObjectMeta, n)
		index, object := crowd(0)
		for i := range objects {
			objects[i] = object(i)
		}
		runtime.GC()
		runtime.ReadMemStats(&before)
		for _, meta := range objects {
			index.SetObject(configMaps, meta)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(index)
		runtime.KeepAlive(objects)
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "B/object")
}

// FuzzSelector: no selector, however broken, makes Compile panic, and what it accepts finds its
// objects.
func FuzzSelector(f *testing.F) {
	f.Add("app", "In", "web", "app", "web", uint64(1))
	f.Add("app", "NotIn", "", "", "x", uint64(2))
	f.Add("a/b", "Exists", "", "a/b", "y", uint64(3))
	f.Add("", "Near", "\x00", "é", "-", uint64(4))
	f.Fuzz(func(t *testing.T, key, operator, value, labelKey, labelValue string, seed uint64) {
		rnd := rand.New(rand.NewPCG(seed, seed))
		requirement := expression(key, metav1.LabelSelectorOperator(operator))
		if value != "" {
			requirement = expression(key, metav1.LabelSelectorOperator(operator), value)
		}
		selectors := append(randomSelectors(rnd), requirement)
		spec := pick(rnd, downsync(objectTest{ObjectSelectors: selectors}), downsync(objectTest{NamespaceSelectors: selectors}))
		compiled, errs := Compile(spec)
		if (compiled == nil) != (len(errs) > 0) {
			t.Fatalf("policy %v, errors %q", compiled, errs)
		}
		if compiled == nil {
			return
		}
		labels := map[string]string{labelKey: labelValue}
		o := &object{resource: &resource{Resource: configMaps}, namespace: "n", labels: labels}
		index := NewIndex(Options{})
		index.SetPolicy("before", compiled)
		index.SetNamespace("n", labels)
		index.SetObject(configMaps, &metav1.ObjectMeta{Namespace: "n", Labels: labels})
		index.SetPolicy("after", compiled)
		for _, name := range []string{"before", "after"} {
			snapshot, _, _ := index.Snapshot(name, Listed{})
			if got, want := len(snapshot.Matches) == 1, compiled.clauses[0].passes(o, labels, true); got != want {
				t.Errorf("%s: the index says %t, the test %t", name, got, want)
			}
		}
	})
}
