// Package wdsserver runs the Kubernetes servers of a WDS. A WDS carries objects and does not act on
// them: what users write for their clusters has no effect in the WDS itself
// (docs/design/0027-a-wds-carries.md). Compared with an ordinary cluster,
//
//   - admission plugins that complete, limit or refuse objects as a cluster does are off, and so
//     are the controllers behind them (plugins.go),
//   - webhook configurations are stored and not called; a kind with a conversion webhook is read
//     as it is stored (conversion.go), and written in its storage version only (admission.go),
//   - APIServices of servers that are not Starling's are stored and serve nothing (apiservices.go),
//   - ServiceAccounts that are not Starling's have neither tokens nor rights (authorization.go).
//
// With Options.CallServers, a WDS calls the webhooks and the API servers that users register.
package wdsserver
