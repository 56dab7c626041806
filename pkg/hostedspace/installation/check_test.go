package installation

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/starlinghq/starling/pkg/hostedspace"
	"github.com/starlinghq/starling/pkg/install/packages"
)

// administrator is what is observed of an empty space.
func administrator(change func(*observed)) *observed {
	o := &observed{Version: "v1.35.4", User: "admin", Administrator: true}
	if change != nil {
		change(o)
	}
	return o
}

func TestCheck(t *testing.T) {
	wds := &Request{Type: WDS, Name: "wds1"}
	its := &Request{Type: ITS, Name: "its1", Webhooks: &Endpoint{}}
	withAddress := &Request{Type: WDS, Name: "wds1", Address: &Endpoint{}}
	withPackages := &Request{Type: WDS, Name: "wds1", Packages: &packages.Server{}}
	onHub := &Request{Type: ITS, Name: "its1"}
	for name, tc := range map[string]struct {
		request  *Request
		observed *observed
		problems int
	}{
		"empty":                     {wds, administrator(nil), 0},
		"again":                     {wds, administrator(func(o *observed) { o.Record = hostedspace.Record{Type: "wds", Name: "wds1"}; o.Chart = "starling-wds" }), 0},
		"installed with Helm":       {wds, administrator(func(o *observed) { o.Chart = "starling-wds" }), 0},
		"another chart":             {wds, administrator(func(o *observed) { o.Chart = "mine" }), 0},
		"oldest":                    {wds, administrator(func(o *observed) { o.Version = "v1.32.0-gke.1" }), 0},
		"newer":                     {wds, administrator(func(o *observed) { o.Version = "v2.1" }), 0},
		"too old":                   {wds, administrator(func(o *observed) { o.Version = "v1.31.9" }), 1},
		"no version":                {wds, administrator(func(o *observed) { o.Version = "unknown" }), 1},
		"build from sources":        {wds, administrator(func(o *observed) { o.Version, o.Release = "v0.0.0-master+$Format:%H$", "1.35" }), 0},
		"old build from sources":    {wds, administrator(func(o *observed) { o.Version, o.Release = "v0.0.0-master+$Format:%H$", "1.9" }), 1},
		"no rights":                 {wds, administrator(func(o *observed) { o.Administrator = false }), 1},
		"no rights in an ITS":       {its, administrator(func(o *observed) { o.Administrator = false }), 1},
		"another type":              {wds, administrator(func(o *observed) { o.Record = hostedspace.Record{Type: "its", Name: "wds1"}; o.Chart = "starling-its" }), 1},
		"another type of chart":     {its, administrator(func(o *observed) { o.Chart = "starling-wds" }), 1},
		"another name":              {wds, administrator(func(o *observed) { o.Record = hostedspace.Record{Type: "wds", Name: "wds2"} }), 1},
		"everything else":           {wds, &observed{Version: "v1.20.0", Record: hostedspace.Record{Type: "its", Name: "its1"}}, 4},
		"no hub":                    {onHub, administrator(nil), 1},
		"hub":                       {onHub, administrator(func(o *observed) { o.Hub = true }), 0},
		"hub of OCM's operator":     {onHub, administrator(func(o *observed) { o.Hub, o.Operator = true, true }), 0},
		"hub to install":            {its, administrator(nil), 0},
		"hub that was installed":    {its, administrator(func(o *observed) { o.Hub = true }), 0},
		"hub to install over OCM's": {its, administrator(func(o *observed) { o.Hub, o.Operator = true, true }), 1},
		"address of someone else":   {withAddress, administrator(func(o *observed) { o.AddressTaken = true }), 1},
		"address that stays":        {wds, administrator(func(o *observed) { o.AddressTaken = true }), 0},
		"packages of someone else":  {withPackages, administrator(func(o *observed) { o.PackagesTaken = `Service "porch-system/api"` }), 1},
		"packages that stay":        {wds, administrator(func(o *observed) { o.PackagesTaken = `Service "porch-system/api"` }), 0},
	} {
		t.Run(name, func(t *testing.T) {
			var problems []string
			if err := check(tc.request, tc.observed); err != nil {
				refused, ok := errors.AsType[*RefusedError](err)
				if !ok {
					t.Fatalf("check() = %v, want a RefusedError", err)
				}
				problems = refused.Problems
			}
			if len(problems) != tc.problems {
				t.Errorf("check() has the problems %q, want %d", problems, tc.problems)
			}
		})
	}
}

func TestParse(t *testing.T) {
	type server struct {
		Host string
		Port int
	}
	for text, want := range map[string]*server{
		"packages":                  {"packages", 443},
		"packages.hosting.svc:8443": {"packages.hosting.svc", 8443},
		"":                          nil,
		":443":                      nil,
		"packages:":                 nil,
		"packages:0":                nil,
		"packages:70000":            nil,
		"packages:http":             nil,
		"packages:1:2":              nil,
		"Packages":                  nil,
		"10.0.0.1":                  nil,
		"10.0.0.1:443":              nil,
		"::1":                       nil,
		"https://packages":          nil,
	} {
		host, port, err := parseServer(text)
		if want == nil {
			if err == nil {
				t.Errorf("parseServer(%q) = %s, %d, want an error", text, host, port)
			}
			continue
		}
		if diff := cmp.Diff(*want, server{host, port}); diff != "" || err != nil {
			t.Errorf("parseServer(%q): %v (-want +got):\n%s", text, err, diff)
		}
	}
	for text, want := range map[string]string{
		"https://its1.example.com:6443": "https://its1.example.com:6443",
		"https://example.com/its1/":     "https://example.com/its1",
		"http://example.com":            "",
		"example.com":                   "",
		"https://":                      "",
		"https://user@example.com":      "",
		"https://example.com?a=b":       "",
		"https://example.com/%":         "",
	} {
		if got, err := parseURL("server", text); (err != nil) != (want == "") || err == nil && got != want {
			t.Errorf("parseURL(%q) = %q, %v, want %q", text, got, err, want)
		}
	}
}
