package placement

import (
	"time"

	"github.com/starlinghq/starling/pkg/core/objref"
)

var (
	now      = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	settings = objref.Ref{Resource: "configmaps", Namespace: "web", Name: "settings"}
	password = objref.Ref{Resource: "secrets", Namespace: "web", Name: "password"}
)
