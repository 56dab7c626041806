{{- define "starling.space.apiserver" }}
{{- $name := printf "%s-apiserver" .space.name }}
{{- $api := .space.apiServer }}
{{- $args := merge (dict "component" "apiserver" "spread" true) . }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ .space.name }}
  labels: {{- include "starling.space.labels" $args | nindent 4 }}
  {{- with $api.service.annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  type: {{ $api.service.type }}
  selector: {{- include "starling.space.selector" $args | nindent 4 }}
  ports:
  - name: https
    port: 443
    targetPort: https
    {{- with $api.service.nodePort }}
    nodePort: {{ . }}
    {{- end }}
{{- if $api.ingress.enabled }}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: {{ .space.name }}
  labels: {{- include "starling.space.labels" $args | nindent 4 }}
  {{- with $api.ingress.annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- with $api.ingress.className }}
  ingressClassName: {{ . }}
  {{- end }}
  rules:
  - host: {{ $api.ingress.host }}
    http:
      paths:
      - path: /
        pathType: Prefix
        backend:
          service:
            name: {{ .space.name }}
            port: {name: https}
{{- end }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}
  labels: {{- include "starling.space.labels" $args | nindent 4 }}
spec:
  replicas: {{ $api.replicas }}
  strategy:
    rollingUpdate: {maxUnavailable: 0, maxSurge: 1}
  selector:
    matchLabels: {{- include "starling.space.selector" $args | nindent 6 }}
  template:
    metadata: {{- include "starling.space.pod-metadata" $args | nindent 6 }}
    spec:
      {{- include "starling.space.pod" $args | nindent 6 }}
      automountServiceAccountToken: false
      # Requests under way may take a minute.
      terminationGracePeriodSeconds: 70
      containers:
      - name: kube-apiserver
        {{- include "starling.space.container" $args | nindent 8 }}
        env:
        - name: POD_IP
          valueFrom: {fieldRef: {fieldPath: status.podIP}}
        args:
        - kube-apiserver
        - --space={{ .space.name }}
        {{- if eq .space.kind "wds" }}
        - --wds
        {{- if $api.callServers }}
        - --call-servers
        {{- end }}
        {{- end }}
        - --wait-for={{ include "starling.space.etcd-endpoints" . }}
        - --
        - --secure-port=6443
        - --tls-cert-file=/certificates/server.crt
        - --tls-private-key-file=/certificates/server.key
        {{- if include "starling.space.external-secret" . }}
        - --tls-sni-cert-key=/external/tls.crt,/external/tls.key:{{ include "starling.space.external-names" . }}
        {{- end }}
        {{- if .space.etcd.endpoints }}
        - --etcd-servers={{ include "starling.space.etcd-endpoints" . }}
        - --etcd-cafile=/etcd/ca.crt
        - --etcd-certfile=/etcd/client.crt
        - --etcd-keyfile=/etcd/client.key
        {{- else }}
        - --etcd-servers={{ include "starling.space.etcd-endpoints" . }}
        - --etcd-cafile=/certificates/etcd-ca.crt
        - --etcd-certfile=/certificates/etcd-client.crt
        - --etcd-keyfile=/certificates/etcd-client.key
        {{- end }}
        - --etcd-prefix=/{{ .space.name }}
        - --advertise-address=$(POD_IP)
        - --client-ca-file=/certificates/ca.crt
        - --authorization-mode=RBAC
        - --service-account-issuer=https://kubernetes.default.svc.cluster.local
        - --service-account-key-file=/certificates/service-account.key
        - --service-account-signing-key-file=/certificates/service-account.key
        - --requestheader-client-ca-file=/certificates/front-proxy-ca.crt
        - --requestheader-allowed-names=front-proxy-client
        - --requestheader-username-headers=X-Remote-User
        - --requestheader-group-headers=X-Remote-Group
        - --requestheader-extra-headers-prefix=X-Remote-Extra-
        - --proxy-client-cert-file=/certificates/front-proxy-client.crt
        - --proxy-client-key-file=/certificates/front-proxy-client.key
        - --service-cluster-ip-range=10.0.0.0/16
        # No workload runs in a space that would connect to its API server.
        - --endpoint-reconciler-type=none
        - --profiling=false
        # Clients and the Service find another replica meanwhile.
        - --shutdown-delay-duration=5s
        - --shutdown-send-retry-after=true
        - --v=1
        {{- range $api.extraArgs }}
        - {{ . | quote }}
        {{- end }}
        ports:
        - {name: https, containerPort: 6443}
        startupProbe:
          httpGet: {path: /livez, port: https, scheme: HTTPS}
          periodSeconds: 2
          timeoutSeconds: 5
          failureThreshold: 150
        readinessProbe:
          httpGet: {path: /readyz, port: https, scheme: HTTPS}
          periodSeconds: 3
          timeoutSeconds: 10
        livenessProbe:
          httpGet: {path: "/livez?exclude=etcd", port: https, scheme: HTTPS}
          periodSeconds: 10
          timeoutSeconds: 15
          failureThreshold: 8
        resources: {{- toYaml $api.resources | nindent 10 }}
        volumeMounts:
        - {name: certificates, mountPath: /certificates, readOnly: true}
        {{- if include "starling.space.external-secret" . }}
        - {name: external, mountPath: /external, readOnly: true}
        {{- end }}
        {{- if .space.etcd.endpoints }}
        - {name: etcd, mountPath: /etcd, readOnly: true}
        {{- end }}
        - {name: tmp, mountPath: /tmp}
      volumes:
      - name: certificates
        secret: {secretName: {{ $name }}}
      {{- with include "starling.space.external-secret" . }}
      - name: external
        secret:
          secretName: {{ . }}
          items: [{key: tls.crt, path: tls.crt}, {key: tls.key, path: tls.key}]
      {{- end }}
      {{- if .space.etcd.endpoints }}
      - name: etcd
        secret: {secretName: {{ .space.etcd.secret }}}
      {{- end }}
      - name: tmp
        emptyDir: {}
{{- if gt (int $api.replicas) 1 }}
{{ include "starling.space.disruption" (merge (dict "objectName" $name) $args) }}
{{- end }}
{{- end }}
