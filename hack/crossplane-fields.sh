#!/usr/bin/env bash
# Prints the fields of Crossplane's types of pkg.crossplane.io in JSON, for api/pkg/v1beta1/testdata: hack/crossplane-fields.sh v2.3.4
#
# These types are no dependency of ours, because they need another controller-runtime than Open Cluster Management does.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >main.go <<'GO'
package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	v1 "github.com/crossplane/crossplane/apis/v2/pkg/v1"
	"github.com/crossplane/crossplane/apis/v2/pkg/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func main() {
	for _, object := range []any{
		v1.Provider{}, v1.ProviderRevision{}, v1.Configuration{}, v1.ConfigurationRevision{}, v1.Function{}, v1.FunctionRevision{},
		v1beta1.Function{}, v1beta1.FunctionRevision{}, v1beta1.Lock{}, v1beta1.ImageConfig{},
	} {
		t := reflect.TypeOf(object)
		var fields []string
		add(&fields, "", t)
		slices.Sort(fields)
		version := t.PkgPath()[strings.LastIndexByte(t.PkgPath(), '/')+1:]
		for _, field := range slices.Compact(fields) {
			if !strings.HasPrefix(field, "metadata.") {
				fmt.Printf("%s/%s %s\n", version, t.Name(), field)
			}
		}
	}
}

func add(fields *[]string, path string, t reflect.Type) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	kind := t.Kind().String()
	switch {
	case t == reflect.TypeFor[metav1.Time]():
		kind = "time"
	case t.Kind() == reflect.Struct:
		for n := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(n).Tag.Get("json"), ",")
			if name != "-" {
				add(fields, strings.Trim(path+"."+name, "."), t.Field(n).Type)
			}
		}
		kind = "object"
	case t.Kind() == reflect.Slice:
		add(fields, path+"[]", t.Elem())
		kind = "list"
	case t.Kind() == reflect.Map:
		add(fields, path+"{}", t.Elem())
	}
	if path != "" {
		*fields = append(*fields, path+" "+kind)
	}
}
GO
go mod init fields >/dev/null 2>&1
GOFLAGS=-mod=mod go get "github.com/crossplane/crossplane/apis/v2@$1" >/dev/null 2>&1
GOFLAGS=-mod=mod go run .
