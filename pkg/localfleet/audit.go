package localfleet

// auditPolicy records who did what, without content, for the identities of Starling's controllers
// and of the status agents. Others make most of the requests of a fleet.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  nonResourceURLs: ["*"]
- level: Metadata
  userGroups: ["system:serviceaccounts:starling-system"]
- level: None
  userGroups: ["system:masters", "system:nodes", "system:serviceaccounts", "system:open-cluster-management:managed-clusters"]
- level: None
  users: ["system:apiserver", "system:kube-controller-manager", "system:kube-scheduler"]
- level: Metadata
`

// auditFlags returns the flags of kube-apiserver for its audit log, if the fleet has audit logs. In
// a WEC, OCM's agent has most of the rights.
func (f *Fleet) auditFlags(space string) []string {
	if !f.state.Audit || f.state.WEC(space) != nil {
		return nil
	}
	return []string{
		"--audit-policy-file=" + f.layout.AuditPolicy(),
		"--audit-log-path=" + f.layout.AuditLog(space),
		// The log is complete when a server is killed.
		"--audit-log-mode=blocking",
	}
}
