{{- define "starling.space.controller-manager" }}
{{- $name := printf "%s-controller-manager" .space.name }}
{{- $args := merge (dict "component" "controller-manager") . }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}
  labels: {{- include "starling.space.labels" $args | nindent 4 }}
spec:
  replicas: 1
  selector:
    matchLabels: {{- include "starling.space.selector" $args | nindent 6 }}
  template:
    metadata: {{- include "starling.space.pod-metadata" $args | nindent 6 }}
    spec:
      {{- include "starling.space.pod" $args | nindent 6 }}
      automountServiceAccountToken: false
      containers:
      - name: kube-controller-manager
        {{- include "starling.space.container" $args | nindent 8 }}
        args:
        - kube-controller-manager
        - --space={{ .space.name }}
        {{- if eq .space.kind "wds" }}
        - --wds
        {{- end }}
        {{- /* Only what is ready answers at a Service. */}}
        - --wait-for=https://{{ .space.name }}.{{ .root.Release.Namespace }}.svc
        - --
        - --kubeconfig=/certificates/kubeconfig
        - --authentication-kubeconfig=/certificates/kubeconfig
        - --authorization-kubeconfig=/certificates/kubeconfig
        - --secure-port=10257
        - --tls-cert-file=/certificates/server.crt
        - --tls-private-key-file=/certificates/server.key
        {{- /* With --wds, the program itself knows. */}}
        {{- if ne .space.kind "wds" }}
        # What a space needs, and nothing that would run a workload.
        - --controllers={{ include "starling.space.controllers" . | trim | splitList "\n" | join "," }}
        {{- end }}
        - --use-service-account-credentials=true
        - --service-account-private-key-file=/certificates/service-account.key
        - --root-ca-file=/certificates/ca.crt
        - --cluster-signing-cert-file=/certificates/ca.crt
        - --cluster-signing-key-file=/certificates/ca.key
        - --leader-elect=true
        - --kube-api-qps=200
        - --kube-api-burst=400
        - --profiling=false
        - --v=1
        {{- range .space.controllerManager.extraArgs }}
        - {{ . | quote }}
        {{- end }}
        ports:
        - {name: https, containerPort: 10257}
        # It waits for the API server.
        startupProbe:
          httpGet: {path: /healthz, port: https, scheme: HTTPS}
          periodSeconds: 2
          timeoutSeconds: 5
          failureThreshold: 150
        livenessProbe:
          httpGet: {path: /healthz, port: https, scheme: HTTPS}
          periodSeconds: 10
          timeoutSeconds: 15
          failureThreshold: 8
        resources: {{- toYaml .space.controllerManager.resources | nindent 10 }}
        volumeMounts:
        - {name: certificates, mountPath: /certificates, readOnly: true}
        - {name: tmp, mountPath: /tmp}
      volumes:
      - name: certificates
        secret: {secretName: {{ $name }}}
      - name: tmp
        emptyDir: {}
{{- end }}

{{- /* A test compares this list with that of a local fleet. */}}
{{- define "starling.space.controllers" }}
namespace-controller
garbage-collector-controller
serviceaccount-controller
serviceaccount-token-controller
root-ca-certificate-publisher-controller
clusterrole-aggregation-controller
resourcequota-controller
certificatesigningrequest-signing-controller
certificatesigningrequest-cleaner-controller
validatingadmissionpolicy-status-controller
persistentvolumeclaim-protection-controller
persistentvolume-protection-controller
{{- end }}
