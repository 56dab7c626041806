package remote

import "testing"

func TestHosts(t *testing.T) {
	hosts := Hosts{"git.example.com", "*.corp.example", "10.0.0.1"}
	if err := hosts.Validate(); err != nil {
		t.Error(err)
	}
	for host, want := range map[string]bool{
		"git.example.com": true, "GIT.example.com": true, "git.example.com.": true, "a.corp.example": true, "a.b.corp.example": true, "10.0.0.1": true,
		"corp.example": false, "evilcorp.example": false, "example.com": false, "git.example.com.evil": false, "10.0.0.2": false, "": false,
	} {
		if got := hosts.Allow(host); got != want {
			t.Errorf("%q: %t", host, got)
		}
	}
	if !(Hosts{}).Allow("anything") {
		t.Error("an empty list must allow all hosts")
	}
	for _, wrong := range []string{"", "*", "*.", "https://git.example.com", "git.example.com:443", "a*.example", "*.10.0.0.1/8"} {
		if (Hosts{wrong}).Validate() == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}
