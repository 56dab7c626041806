package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/starlinghq/starling/pkg/controller/binding"
	"github.com/starlinghq/starling/pkg/controller/packages/repositories"
	"github.com/starlinghq/starling/pkg/controller/status"
)

func TestOptions(t *testing.T) {
	const its = "--its=its1=/k"
	cases := map[string]struct {
		args     []string
		wantErr  string
		wantAPIs []string
	}{
		"Least":            {args: []string{its}},
		"NoITS":            {args: nil, wantErr: "--its is required"},
		"SameITS":          {args: []string{its, its}, wantErr: "duplicate name"},
		"One":              {args: []string{its, "--controllers=status"}},
		"Both":             {args: []string{its, "--controllers=status,binding"}},
		"All":              {args: []string{its, "--controllers=packages,status,binding"}},
		"PackagesAlone":    {args: []string{"--controllers=packages"}},
		"Unknown":          {args: []string{its, "--controllers=binding,x"}, wantErr: `"x" is unknown; use binding, status, packages`},
		"None":             {args: []string{its, "--controllers="}}, // as in KubeStellar: all
		"ITSOfKubeStellar": {args: []string{"--its-name=its1", "--its-kubeconfig=/k", "--its-qps=5"}},
		"ITSByNameOnly":    {args: []string{"--its-name=its1"}, wantErr: "--its-kubeconfig is required"},
		"OtherAddresses":   {args: []string{its, "--metrics-bind-address=:1", "--health-probe-bind-address=:2", "--pprof-bind-address=:3", "--leader-elect", "-v=2"}},
		"CoreGroup":        {args: []string{its, "--api-groups=apps,,batch"}, wantAPIs: []string{"apps", "", "batch"}},
		"NoNamespace":      {args: []string{its, "--cluster-repository-namespaces="}, wantErr: "--cluster-repository-namespaces"},
		"BadNamespace":     {args: []string{its, "--cluster-repository-namespaces=a,B"}, wantErr: "--cluster-repository-namespaces: \"B\""},
		"NoWorkers":        {args: []string{its, "--concurrency=0"}, wantErr: "--concurrency"},
		"NoName":           {args: []string{its, "--wds-name="}, wantErr: "--wds-name"},
		"NoRequests":       {args: []string{its, "--wds-qps=0"}, wantErr: "--wds-qps"},
		"NoRequestsToITS":  {args: []string{its, "--its-burst=0"}, wantErr: "--its-burst"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o, flags := newOptions(), pflag.NewFlagSet("", pflag.ContinueOnError)
			o.addFlags(flags)
			err := flags.Parse(tc.args)
			if err == nil {
				err = o.complete()
			}
			switch {
			case tc.wantErr == "" && err != nil:
				t.Errorf("error %v", err)
			case tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)):
				t.Errorf("error %v, want one that says %q", err, tc.wantErr)
			case tc.wantErr == "" && !slices.Equal(o.settings.APIGroups, tc.wantAPIs):
				t.Errorf("API groups %q; want %q", o.settings.APIGroups, tc.wantAPIs)
			}
		})
	}
}

// TestLeases: each controller has one Lease, whichever others run with it.
func TestLeases(t *testing.T) {
	const ofBinding, ofStatus, ofPackages = "binding-controller-binding", "binding-controller-status", "binding-controller-packages"
	cases := map[string]struct{ policies, packages []string }{
		"":                {policies: []string{ofBinding, ofStatus}, packages: []string{ofPackages}},
		"binding":         {policies: []string{ofBinding}},
		"status":          {policies: []string{ofStatus}},
		"packages":        {packages: []string{ofPackages}},
		"status,binding":  {policies: []string{ofBinding, ofStatus}}, // in one order, so that no two processes wait for each other
		"status,packages": {policies: []string{ofStatus}, packages: []string{ofPackages}},
	}
	for controllers, want := range cases {
		o, flags := newOptions(), pflag.NewFlagSet("", pflag.ContinueOnError)
		o.addFlags(flags)
		if err := flags.Parse([]string{"--its=its1=/k", "--controllers=" + controllers}); err != nil {
			t.Fatal(err)
		}
		if err := o.complete(); err != nil {
			t.Fatal(err)
		}
		if got := o.leases(binding.Name, status.Name); !slices.Equal(got, want.policies) {
			t.Errorf("%q: Leases of policies %q, want %q", controllers, got, want.policies)
		}
		if got := o.leases(repositories.Name); !slices.Equal(got, want.packages) {
			t.Errorf("%q: Leases of packages %q, want %q", controllers, got, want.packages)
		}
	}
}
