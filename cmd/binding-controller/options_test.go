package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestOptions(t *testing.T) {
	const its = "--its=its1=/k"
	cases := map[string]struct {
		args      []string
		wantErr   string
		wantLease string
		wantAPIs  []string
	}{
		"Least":            {args: []string{its}},
		"NoITS":            {args: nil, wantErr: "--its is required"},
		"SameITS":          {args: []string{its, its}, wantErr: "duplicate name"},
		"One":              {args: []string{its, "--controllers=status"}, wantLease: "status"},
		"Both":             {args: []string{its, "--controllers=status,binding"}, wantLease: "binding-status"},
		"All":              {args: []string{its, "--controllers=packages,status,binding"}},
		"PackagesAlone":    {args: []string{"--controllers=packages"}, wantLease: "packages"},
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
			case tc.wantErr == "" && (o.leaseSuffix() != tc.wantLease || !slices.Equal(o.apiGroups, tc.wantAPIs)):
				t.Errorf("lease %q, API groups %q; want %q, %q", o.leaseSuffix(), o.apiGroups, tc.wantLease, tc.wantAPIs)
			}
		})
	}
}
