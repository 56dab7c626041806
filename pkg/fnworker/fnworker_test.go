package fnworker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/kptpkg"
	"github.com/starlinghq/starling/pkg/core/kptpkg/functions"
	"github.com/starlinghq/starling/pkg/core/kptpkg/render"
	"github.com/starlinghq/starling/pkg/fnworker"
)

func TestMain(m *testing.M) {
	if worker, err := fnworker.Main(); worker { // the tests' binary is the workers', too
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func pool(t testing.TB, config fnworker.Config) *fnworker.Pool {
	t.Helper()
	p, err := fnworker.NewPool(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func program(source string) *yaml.RNode {
	return yaml.MustParse("apiVersion: fn.kpt.dev/v1alpha1\nkind: StarlarkRun\nmetadata:\n  name: s\nsource: |\n  " + strings.ReplaceAll(source, "\n", "\n  ") + "\n")
}

// A rendering through workers is the same as one without.
func TestRender(t *testing.T) {
	p := pool(t, fnworker.Config{})
	files := kptpkg.Files{
		"Kptfile": "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: p\npipeline:\n  mutators:\n  - image: set-labels:v0.2\n    configMap: {a: b}\n    selectors: [{name: a}]\n" +
			"  - image: starlark:v0.5\n    configMap:\n      source: |\n        print('hi')\n        ctx.resource_list['items'].append({'apiVersion': 'v1', 'kind': 'Secret', 'metadata': {'name': 's'}})\n",
		"a.yaml": "apiVersion: v1 # one\nkind: ConfigMap\nmetadata:\n  name: a # ours\n---\napiVersion:   v1\nkind: ConfigMap\nmetadata: {name:   b}\n",
	}
	want, err := render.Render(files, functions.Run)
	if err != nil {
		t.Fatal(err)
	}
	got, err := render.Render(files, func(image string, in functions.Input) (functions.Output, error) {
		return p.Evaluate(t.Context(), image, in)
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	if got, err = p.Render(t.Context(), files); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("in one process (-want +got):\n%s", diff)
	}
}

// Whatever is wrong: a rendering in one process says what one without it says.
func TestRenderErrors(t *testing.T) {
	p := pool(t, fnworker.Config{})
	pipeline := func(steps string) string {
		return "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: p\npipeline:\n  mutators:\n" + steps
	}
	labels := "  - image: set-labels:v0.2\n    configMap: {a: b}\n"
	object := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n"
	tests := map[string]kptpkg.Files{
		"nothing":            {},
		"no pipeline":        {"Kptfile": "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata: {name: p}\n", "a.yaml": object},
		"a broken Kptfile":   {"Kptfile": "x: [\n"},
		"a broken file":      {"Kptfile": pipeline(labels), "a.yaml": "x: [\n"},
		"an object twice":    {"Kptfile": pipeline(labels), "a.yaml": object, "b.yaml": object},
		"an unknown image":   {"Kptfile": pipeline(labels + "  - image: nothing\n"), "a.yaml": object},
		"a function objects": {"Kptfile": pipeline(labels + "  - image: starlark:v0.5\n    configMap:\n      source: fail('no')\n"), "a.yaml": object},
		"all is deleted":     {"Kptfile": pipeline("  - image: delete-resources:v0.1\n    configMap: {kind: ConfigMap}\n"), "a.yaml": object, "b.txt": "x"},
	}
	for name, files := range tests {
		t.Run(name, func(t *testing.T) {
			want, wantErr := render.Render(files, functions.Run)
			got, err := p.Render(t.Context(), files)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if fmt.Sprint(err) != fmt.Sprint(wantErr) {
				t.Errorf("error %v, want %v", err, wantErr)
			}
			_, wantPackage := errors.AsType[*render.PackageError](wantErr)
			if _, isPackage := errors.AsType[*render.PackageError](err); isPackage != wantPackage {
				t.Errorf("error %v is of type %T", err, err)
			}
		})
	}
}

// The function that runs away is named, each has its own time, and the pool goes on.
func TestRenderRunaways(t *testing.T) {
	limits := fnworker.Config{Workers: 1, Timeout: time.Minute, Memory: 200 << 20, Message: 1 << 20} // far from what a busy machine takes
	patient := pool(t, limits)
	limits.Timeout, limits.Rendering = 5*time.Second, time.Minute
	impatient := pool(t, limits)
	rendered := func(ctx context.Context, p *fnworker.Pool, sources ...string) error {
		var text strings.Builder
		text.WriteString("apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: p\npipeline:\n  mutators:\n  - image: set-labels:v0.2\n    configMap: {a: b}\n")
		for _, source := range sources {
			text.WriteString("  - image: starlark:v0.5\n    configMap:\n      source: |\n        " + strings.ReplaceAll(source, "\n", "\n        ") + "\n")
		}
		_, err := p.Render(ctx, kptpkg.Files{"Kptfile": text.String()})
		return err
	}
	slow := "x = 0\nfor i in range(%d): x = len(str(list(range(1000))))"
	for name, tc := range map[string]struct {
		sources []string
		want    string
	}{
		"endless": {[]string{"print(1)", "x = 0\nwhile True:\n  x = len(str(list(range(1000)) * 100))"}, "function starlark:v0.5 was killed: it took longer than 5s"},
		"memory":  {[]string{"x = []\nfor i in range(10000000): x.append('x' * 1000000 + str(i))"}, "function starlark:v0.5 was killed: it held more than 200 MiB of memory"},
		"input":   {[]string{"x = '" + strings.Repeat("x", 2<<20) + "'"}, "is larger than is allowed"},
		"output": {
			[]string{"ctx.resource_list['items'].append({'apiVersion': 'v1', 'kind': 'X', 'metadata': {'name': 'x'}, 'data': 'x' * 2000000})"},
			"is larger than is allowed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := patient
			if name == "endless" {
				p = impatient
			}
			if err := rendered(t.Context(), p, tc.sources...); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			if err := rendered(t.Context(), p, "print(1)"); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
	began := time.Now()
	if err := rendered(t.Context(), impatient, fmt.Sprintf(slow, 1000)); err != nil {
		t.Fatal(err)
	}
	// Together they take longer than a function may, and each takes an eighth of that: the machine may have other work to do.
	rounds := max(1, int(600*time.Millisecond/max(1, time.Since(began)/1000)))
	if err := rendered(t.Context(), impatient, slices.Repeat([]string{fmt.Sprintf(slow, rounds)}, 10)...); err != nil {
		t.Errorf("ten functions of 0.6 s each: %v", err)
	}
	short := pool(t, fnworker.Config{Rendering: 3 * time.Second})
	files := kptpkg.Files{"Kptfile": "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: p\npipeline:\n  mutators:\n" +
		strings.Repeat("  - image: starlark:v0.5\n    configMap:\n      source: |\n        for i in range(500000): pass\n", 1000)}
	if _, err := short.Render(t.Context(), files); err == nil || !strings.Contains(err.Error(), "starlark:v0.5 was killed: all functions of the package together took longer than 3s") {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := rendered(ctx, patient, "while True: pass"); err == nil || !strings.Contains(err.Error(), "its caller waits no longer") {
		t.Errorf("error %v", err)
	}
}

// What runs away is killed and reported, and the pool goes on.
func TestRunaways(t *testing.T) {
	limits := fnworker.Config{Workers: 1, Timeout: time.Minute, Memory: 200 << 20, Message: 1 << 20} // far from what a busy machine takes
	patient := pool(t, limits)
	limits.Timeout = 5 * time.Second
	impatient := pool(t, limits)
	for name, tc := range map[string]struct {
		source, want string
		alive        bool
	}{
		"Endless":   {"x = 0\nwhile True:\n  x = len(str(list(range(1000)) * 100))", "was killed: it took longer than 5s", false},
		"Memory":    {"x = []\nfor i in range(10000000): x.append('x' * 1000000 + str(i))", "was killed: it held more than 200 MiB of memory", false},
		"AtOnce":    {"x = [0] * 100000000", "was killed: it", false},             // between two looks at it, or at one
		"Recursion": {"def f(n): return f(n + 1)\nf(0)", "was killed: it", false}, // of its stack, or of its memory,
		"Output":    {"ctx.resource_list['items'].append({'apiVersion': 'v1', 'kind': 'X', 'metadata': {'name': 'x'}, 'data': 'x' * 2000000})", "is larger than is allowed", true},
		"Fails":     {"fail('no')", "starlark: fail: no (line 1)", true},
		"NoFiles":   {"load('/etc/passwd', 'x')", "cannot be loaded", true},
	} {
		t.Run(name, func(t *testing.T) {
			p := patient
			if name == "Endless" {
				p = impatient
			}
			start := time.Now()
			_, err := p.Evaluate(t.Context(), "starlark:v0.5", functions.Input{Config: program(tc.source)})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			var killed *fnworker.KilledError
			if errors.As(err, &killed) == tc.alive {
				t.Errorf("error %v is of type %T", err, err)
			}
			if took := time.Since(start); took > time.Minute {
				t.Errorf("it took %s", took)
			}
			out, err := p.Evaluate(t.Context(), "starlark:v0.5", functions.Input{Config: program("print(len(ctx.environment))")})
			if err != nil || out.Stderr != "0\n" {
				t.Errorf("afterwards: %q, %v", out.Stderr, err)
			}
		})
	}
	_, err := patient.Evaluate(t.Context(), "starlark:v0.5", functions.Input{Config: program("x = '" + strings.Repeat("x", 2<<20) + "'")})
	if err == nil || !strings.Contains(err.Error(), "is larger than is allowed") {
		t.Errorf("a large input: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := patient.Evaluate(ctx, "starlark:v0.5", functions.Input{Config: program("while True: pass")}); err == nil {
		t.Error("a caller that went away gets an answer")
	}
}

// child is a worker of this process, as the system tells of it.
type child struct {
	state   string // Z is that of one that has ended and was not waited for
	ticks   int    // how long it has worked, all its threads together
	threads int    // of one that has ended, others may be about to
}

func children(t *testing.T) map[int]child {
	t.Helper()
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil || len(lists) == 0 {
		t.Skip("this system does not tell")
	}
	all := map[int]child{}
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue // a thread that has ended
		}
		for field := range strings.FieldsSeq(string(text)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			if err != nil {
				continue
			}
			_, rest, _ := strings.Cut(string(stat), ") ")
			fields := strings.Fields(rest) // from the third on
			number := func(field int) int {
				n, err := strconv.Atoi(fields[field-3])
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
			all[pid] = child{state: fields[0], ticks: number(14) + number(15), threads: number(20)}
		}
	}
	return all
}

// await waits until a worker is as it should be.
func await(t *testing.T, pid int, is func(child) bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		now := children(t)[pid]
		if is(now) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("worker %d is %+v", pid, now)
		}
	}
}

// A worker that somebody else kills while it is idle costs no call; one that dies while it works fails that call alone. None stays as a
// zombie.
func TestKilledByOthers(t *testing.T) {
	p := pool(t, fnworker.Config{Workers: 1, Timeout: time.Minute})
	evaluate := func(source string) error {
		_, err := p.Evaluate(t.Context(), "starlark:v0.5", functions.Input{Config: program(source)})
		return err
	}
	before := children(t)
	mine := func() (pid int) {
		for id := range children(t) {
			if _, old := before[id]; !old {
				pid = id
			}
		}
		if pid == 0 { // a signal to 0 is one to us
			t.Fatal("there is no worker")
		}
		return pid
	}
	if err := evaluate("print(1)"); err != nil {
		t.Fatal(err)
	}
	idle := mine()
	if err := syscall.Kill(idle, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await(t, idle, func(c child) bool { return c.state == "Z" && c.threads == 1 })
	if err := evaluate("print(1)"); err != nil {
		t.Errorf("after its worker was killed: %v", err)
	}
	if _, there := children(t)[idle]; there {
		t.Error("who was killed is a zombie")
	}
	working := mine()
	rested := children(t)[working].ticks
	failed := make(chan error)
	go func() { // few steps, so that it ends when it is killed and not before
		failed <- evaluate("x = 0\nwhile True:\n  x = len(str(list(range(1000)) * 100))")
	}()
	await(t, working, func(c child) bool { return c.ticks > rested+5 })
	if err := syscall.Kill(working, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err == nil || !strings.Contains(err.Error(), "starlark:v0.5 was killed: its process ended") {
		t.Errorf("error %v", err)
	}
	if err := evaluate("print(1)"); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	for pid, worker := range children(t) {
		if _, old := before[pid]; !old && worker.state == "Z" {
			t.Errorf("%d is a zombie", pid)
		}
	}
}

// What grows by being written as JSON fits all the same: a package of the largest size goes there and back.
func TestLargestPackage(t *testing.T) {
	p := pool(t, fnworker.Config{})
	files := kptpkg.Files{
		"Kptfile": "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: p\npipeline:\n  mutators:\n  - image: set-labels:v0.2\n    configMap: {a: b}\n",
		"a.yaml":  "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n",
	}
	files["page.html"] = strings.Repeat("<&>", (kptpkg.MaxBytes-files.Size()-100)/3)
	got, err := p.Render(t.Context(), files)
	if err != nil || !strings.Contains(got.Files["a.yaml"], "a: b") || got.Files["page.html"] != files["page.html"] {
		t.Errorf("%v", err)
	}
}

// Calls at the same time share the processes, and get their own answers.
func TestManyCallers(t *testing.T) {
	p := pool(t, fnworker.Config{Workers: 2, Calls: 7})
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			out, err := p.Evaluate(t.Context(), "starlark:v0.5", functions.Input{Config: program(fmt.Sprintf("print(%d)", i))})
			if want := fmt.Sprintf("%d\n", i); err != nil || out.Stderr != want {
				t.Errorf("%q, %v, want %q", out.Stderr, err, want)
			}
		})
	}
	wg.Wait()
}

// A package with four functions by its size: in one process, and, at one size, with a call for each function. The time per resource should not depend
// on how many there are.
func BenchmarkRender(b *testing.B) {
	p := pool(b, fnworker.Config{})
	for _, n := range []int{10, 50, 100, 1000} {
		files := kptpkg.Files{"Kptfile": "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: p\npipeline:\n  mutators:\n  - image: set-namespace:v0.4\n    configMap: {namespace: n}\n" +
			"  - image: set-labels:v0.2\n    configMap: {a: b}\n  - image: set-image:v0.1\n    configMap: {name: nginx, newTag: '2'}\n  validators:\n  - image: kubeconform:v0.1\n"}
		for i := range n {
			files[fmt.Sprintf("d%d.yaml", i)] = fmt.Sprintf("apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: d%d\nspec:\n  replicas: 1\n  selector:\n    matchLabels:\n      app: x\n  template:\n    metadata:\n      labels:\n        app: x\n    spec:\n      containers:\n      - name: c\n        image: nginx:1\n        ports:\n        - containerPort: 80\n", i)
		}
		perResource := func(b *testing.B) {
			b.Helper()
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(n), "µs/resource")
		}
		b.Run(fmt.Sprintf("package/%d", n), func(b *testing.B) {
			for b.Loop() {
				if _, err := p.Render(b.Context(), files); err != nil {
					b.Fatal(err)
				}
			}
			perResource(b)
		})
		if n != 50 {
			continue
		}
		b.Run(fmt.Sprintf("functions/%d", n), func(b *testing.B) {
			for b.Loop() {
				_, err := render.Render(files, func(image string, in functions.Input) (functions.Output, error) {
					return p.Evaluate(b.Context(), image, in)
				})
				if err != nil {
					b.Fatal(err)
				}
			}
			perResource(b)
		})
	}
}

func BenchmarkEvaluate(b *testing.B) {
	p := pool(b, fnworker.Config{})
	node := yaml.MustParse("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n")
	for b.Loop() {
		in := functions.Input{Items: []functions.Item{{Path: "a.yaml", Node: node}}, Config: yaml.MustParse("apiVersion: v1\nkind: ConfigMap\ndata: {a: b}\n")}
		if _, err := p.Evaluate(b.Context(), "set-labels:v0.2", in); err != nil {
			b.Fatal(err)
		}
	}
}
