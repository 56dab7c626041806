package functionrunner_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
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

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/functions"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/render"
	"github.com/starlinghq/starling/pkg/packages/functionhost"
	"github.com/starlinghq/starling/pkg/packages/functionrunner"
	"github.com/starlinghq/starling/test/testenv"
)

func TestMain(m *testing.M) {
	if worker, err := functionrunner.Main(); worker { // the binary of the tests is also that of the workers
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func pool(t testing.TB, config functionrunner.Config) *functionrunner.Pool {
	t.Helper()
	p, err := functionrunner.NewPool(config)
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

// kptfileWith returns a Kptfile whose pipeline sets a label and then runs the programs.
func kptfileWith(sources ...string) string {
	var text strings.Builder
	text.WriteString("apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: p\npipeline:\n  mutators:\n  - image: set-labels:v0.2\n    configMap: {a: b}\n")
	for _, source := range sources {
		text.WriteString("  - image: starlark:v0.5\n    configMap:\n      source: |\n        " + strings.ReplaceAll(source, "\n", "\n        ") + "\n")
	}
	return text.String()
}

// renderPrograms renders a package with only a Kptfile, and returns what its last program printed.
func renderPrograms(ctx context.Context, p *functionrunner.Pool, sources ...string) (printed string, err error) {
	result, err := p.Render(ctx, kpt.Files{"Kptfile": kptfileWith(sources...)})
	if ran := result.Results.Items; len(ran) > 0 {
		printed = ran[len(ran)-1].Stderr
	}
	return printed, err
}

// Rendering in a process has the same result as rendering without one.
func TestRender(t *testing.T) {
	p := pool(t, functionrunner.Config{})
	files := kpt.Files{
		"Kptfile": "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: p\npipeline:\n  mutators:\n  - image: set-labels:v0.2\n    configMap: {a: b}\n    selectors: [{name: a}]\n" +
			"  - image: starlark:v0.5\n    configMap:\n      source: |\n        print('hi')\n        ctx.resource_list['items'].append({'apiVersion': 'v1', 'kind': 'Secret', 'metadata': {'name': 's'}})\n",
		"a.yaml": "apiVersion: v1 # one\nkind: ConfigMap\nmetadata:\n  name: a # ours\n---\napiVersion:   v1\nkind: ConfigMap\nmetadata: {name:   b}\n",
	}
	want, err := render.Render(files, functions.Run)
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.Render(t.Context(), files)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
}

// TestFunctionHosts: a function that is not built in runs in its host, between others. An error of
// the host is that of the function, and the process renders the next package.
func TestFunctionHosts(t *testing.T) {
	serve := func(script string) string {
		server := httptest.NewServer(functionhost.NewServer([]string{"/bin/sh", "-c", script}, 1, testenv.Patience, 1<<20))
		t.Cleanup(server.Close)
		return server.URL
	}
	hosts, err := functionhost.NewClient(map[string]string{
		"example.com/one:v1": serve("sed s/first/second/"), "example.com/fails:v1": serve("echo because >&2; exit 2"), "example.com/away:v1": "http://127.0.0.1:1",
		"example.com/large:v1": serve("head -c 900000 /dev/zero | tr '\\0' x"), "example.com/slow:v1": serve("sleep 1000"),
	}, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	p := pool(t, functionrunner.Config{Workers: 1, Hosts: hosts, MaxMessage: 500_000, Timeout: 3 * time.Second})
	files := func(image string) kpt.Files {
		return kpt.Files{
			"Kptfile": "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: p\npipeline:\n  mutators:\n  - image: set-labels:v0.2\n    configMap: {a: first}\n" +
				"  - image: " + image + "\n    configMap: {to: x}\n  - image: set-annotations:v0.1\n    configMap: {last: x}\n",
			"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a # ours\n",
		}
	}
	for image, want := range map[string]string{
		"example.com/one:v1":   "",
		"example.com/fails:v1": "pipeline.mutators[1]: example.com/fails:v1: exit code 2",
		"example.com/away:v1":  "pipeline.mutators[1]: example.com/away:v1: its host does not answer: ",
		"example.com/other:v1": `pipeline.mutators[1]: image "example.com/other:v1" is not a built-in function, and no function host of this server has it`,
		"example.com/large:v1": "pipeline.mutators[1]: example.com/large:v1: size of the output: ",
		"example.com/slow:v1":  "function example.com/slow:v1 was killed: it took longer than 3s",
	} {
		result, err := p.Render(t.Context(), files(image))
		if want != "" {
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s: %v, want %s", image, err, want)
			}
			continue
		}
		const rendered = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a # ours\n  labels:\n    a: second\n  annotations:\n    last: x\n"
		if diff := cmp.Diff(rendered, result.Files["a.yaml"]); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", image, err, diff)
		}
	}
	if _, err := p.Render(t.Context(), files("set-labels:v0.1")); err != nil {
		t.Error(err)
	}
}

// Errors of rendering in a process are the same as without one.
func TestRenderErrors(t *testing.T) {
	p := pool(t, functionrunner.Config{})
	pipeline := func(steps string) string {
		return "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: p\npipeline:\n  mutators:\n" + steps
	}
	labels := "  - image: set-labels:v0.2\n    configMap: {a: b}\n"
	object := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n"
	tests := map[string]kpt.Files{
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

// The time for a function does not include the start of a process and reading the package: on a
// busy machine these take long.
func TestTimeoutIsForFunctions(t *testing.T) {
	p := pool(t, functionrunner.Config{Workers: 1, Timeout: time.Nanosecond, RenderTimeout: time.Minute})
	files := kpt.Files{"Kptfile": "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata: {name: p}\n"}
	if _, err := p.Render(t.Context(), files); err != nil {
		t.Errorf("a package without functions: %v", err)
	}
	p = pool(t, functionrunner.Config{Workers: 1, RenderTimeout: time.Nanosecond})
	if _, err := p.Render(t.Context(), files); err == nil || !strings.Contains(err.Error(), "reading the package was killed: it took longer than 1ns") {
		t.Errorf("reading without end: %v", err)
	}
}

// Functions that exceed a limit are killed and reported by name, and the pool continues. An error
// of a function kills nothing.
func TestRunaways(t *testing.T) {
	limits := functionrunner.Config{Workers: 1, Timeout: time.Minute, Memory: 200 << 20, MaxMessage: 1 << 20} // more than a busy machine takes
	patient := pool(t, limits)
	// With the race detector a process holds several times the memory that the collector knows of.
	limits.Timeout, limits.RenderTimeout, limits.Memory = 5*time.Second, time.Minute, 2<<30
	impatient := pool(t, limits)
	for name, tc := range map[string]struct {
		sources []string
		want    string
		killed  bool
	}{
		"Endless": {
			[]string{"print(1)", "x = 0\nwhile True:\n  x = len(str(list(range(1000))))"},
			"function starlark:v0.5 was killed: it took longer than 5s", true,
		},
		"Memory": {
			[]string{"x = []\nfor i in range(10000000): x.append('x' * 1000000 + str(i))"},
			"function starlark:v0.5 was killed: it used more than 200 MiB of memory", true,
		},
		"AtOnce":    {[]string{"x = [0] * 100000000"}, "starlark:v0.5 was killed: it", true},             // between two checks of its memory, or at one
		"Recursion": {[]string{"def f(n): return f(n + 1)\nf(0)"}, "starlark:v0.5 was killed: it", true}, // of its stack or of its memory
		"Input":     {[]string{"x = '" + strings.Repeat("x", 2<<20) + "'"}, "exceeds the limit", false},
		"Output": {
			[]string{"ctx.resource_list['items'].append({'apiVersion': 'v1', 'kind': 'X', 'metadata': {'name': 'x'}, 'data': 'x' * 2000000})"},
			"exceeds the limit", false,
		},
		"Fails":   {[]string{"fail('no')"}, "starlark: fail: no (line 1)", false},
		"NoFiles": {[]string{"load('/etc/passwd', 'x')"}, "does not exist; libraries are", false},
	} {
		t.Run(name, func(t *testing.T) {
			p := patient
			if name == "Endless" {
				p = impatient
			}
			_, err := renderPrograms(t.Context(), p, tc.sources...)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			if _, killed := errors.AsType[*functionrunner.KilledError](err); killed != tc.killed {
				t.Errorf("error %v is of type %T", err, err)
			}
			if printed, err := renderPrograms(t.Context(), p, "print(len(ctx.environment))"); err != nil || printed != "0\n" {
				t.Errorf("afterwards: %q, %v", printed, err)
			}
		})
	}
}

// Each function has its own time, and all functions of a package have a time together.
func TestTimeouts(t *testing.T) {
	impatient := pool(t, functionrunner.Config{Workers: 1, Timeout: 5 * time.Second, RenderTimeout: time.Minute, Memory: 2 << 30})
	slow := "x = 0\nfor i in range(%d): x = len(str(list(range(1000))))"
	began := time.Now()
	if _, err := renderPrograms(t.Context(), impatient, fmt.Sprintf(slow, 1000)); err != nil {
		t.Fatal(err)
	}
	// Together they take longer than one function may, and each takes an eighth of that, since the
	// machine may be busy.
	rounds := max(1, int(600*time.Millisecond/max(1, time.Since(began)/1000)))
	if _, err := renderPrograms(t.Context(), impatient, slices.Repeat([]string{fmt.Sprintf(slow, rounds)}, 10)...); err != nil {
		t.Errorf("ten functions of 0.6 s each: %v", err)
	}
	short := pool(t, functionrunner.Config{RenderTimeout: 3 * time.Second, Memory: 2 << 30})
	_, err := renderPrograms(t.Context(), short, slices.Repeat([]string{"for i in range(500000): pass"}, 1000)...)
	if err == nil || !strings.Contains(err.Error(), "starlark:v0.5 was killed: all functions of the package together took longer than 3s") {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := renderPrograms(ctx, impatient, "while True: pass"); err == nil || !strings.Contains(err.Error(), "its request timed out") {
		t.Errorf("error %v", err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := renderPrograms(canceled, impatient, "while True: pass"); err == nil {
		t.Error("a canceled request has no error")
	}
}

// child is a worker of this process, as /proc describes it.
type child struct {
	state   string // Z if it has exited and was not waited for
	ticks   int    // CPU time of all its threads
	threads int    // those of a process that has exited may still be ending
}

func children(t *testing.T) map[int]child {
	t.Helper()
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil || len(lists) == 0 {
		t.Skip("this system does not list child processes")
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

// await blocks until a worker is in the expected state.
func await(t *testing.T, pid int, is func(child) bool) {
	t.Helper()
	testenv.Eventually(t, time.Minute, func() (bool, string) {
		now := children(t)[pid]
		return is(now), fmt.Sprintf("worker %d is %+v", pid, now)
	})
}

// An idle worker that is killed from outside fails no call. A working one that dies fails only its
// call. None remains as a zombie.
func TestKilledByOthers(t *testing.T) {
	p := pool(t, functionrunner.Config{Workers: 1, Timeout: time.Minute})
	evaluate := func(source string) error {
		_, err := renderPrograms(t.Context(), p, source)
		return err
	}
	before := children(t)
	mine := func() (pid int) {
		for id := range children(t) {
			if _, old := before[id]; !old {
				pid = id
			}
		}
		if pid == 0 { // a signal to 0 would be one to this process
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
		t.Error("the killed process is a zombie")
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
	if err := <-failed; err == nil || !strings.Contains(err.Error(), "starlark:v0.5 was killed: its process exited") {
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

// A package of the largest size can be sent and returned although it grows as JSON.
func TestLargestPackage(t *testing.T) {
	p := pool(t, functionrunner.Config{})
	files := kpt.Files{
		"Kptfile": "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: p\npipeline:\n  mutators:\n  - image: set-labels:v0.2\n    configMap: {a: b}\n",
		"a.yaml":  "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n",
	}
	files["page.html"] = strings.Repeat("<&>", (kpt.MaxBytes-files.Size()-100)/3)
	got, err := p.Render(t.Context(), files)
	if err != nil || !strings.Contains(got.Files["a.yaml"], "a: b") || got.Files["page.html"] != files["page.html"] {
		t.Errorf("%v", err)
	}
}

// Concurrent calls share the processes, and get their own responses.
func TestManyCallers(t *testing.T) {
	p := pool(t, functionrunner.Config{Workers: 2, MaxCalls: 7})
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			printed, err := renderPrograms(t.Context(), p, fmt.Sprintf("print(%d)", i))
			if want := fmt.Sprintf("%d\n", i); err != nil || printed != want {
				t.Errorf("%q, %v, want %q", printed, err, want)
			}
		})
	}
	wg.Wait()
}

// A package with four functions by its size. The time per resource should not depend on the number
// of resources.
func BenchmarkRender(b *testing.B) {
	p := pool(b, functionrunner.Config{})
	for _, n := range []int{10, 50, 100, 1000} {
		files := kpt.Files{"Kptfile": "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: p\npipeline:\n  mutators:\n  - image: set-namespace:v0.4\n    configMap: {namespace: n}\n" +
			"  - image: set-labels:v0.2\n    configMap: {a: b}\n  - image: set-image:v0.1\n    configMap: {name: nginx, newTag: '2'}\n  validators:\n  - image: kubeconform:v0.1\n"}
		for i := range n {
			files[fmt.Sprintf("d%d.yaml", i)] = fmt.Sprintf("apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: d%d\nspec:\n  replicas: 1\n  selector:\n    matchLabels:\n      app: x\n  template:\n    metadata:\n      labels:\n        app: x\n    spec:\n      containers:\n      - name: c\n        image: nginx:1\n        ports:\n        - containerPort: 80\n", i)
		}
		b.Run(fmt.Sprintf("package/%d", n), func(b *testing.B) {
			for b.Loop() {
				if _, err := p.Render(b.Context(), files); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(n), "µs/resource")
		})
	}
}
