{{/*
Names do not follow the release's: one cluster has one Plimsoll, and a second release is refused by Helm (the objects
are another's) instead of resizing the same pods against the first.
*/}}
{{- define "plimsoll.labels" -}}
app.kubernetes.io/name: plimsoll
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* What selects the pods of a part; never changes, as selectors are immutable. Takes the part's name. */}}
{{- define "plimsoll.selector" -}}
app.kubernetes.io/name: plimsoll
app.kubernetes.io/component: {{ . }}
{{- end }}

{{- define "plimsoll.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}{{ .repository }}@{{ .digest }}{{- else -}}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{- end -}}
{{- end -}}
{{- end }}

{{/* Who runs it: nobody's uid, known to the image; 0 only where cgroup files are to be written, which are root's. */}}
{{- define "plimsoll.uid" -}}65532{{- end }}
{{- define "plimsoll.writesCgroups" -}}
{{- if or .Values.podLimits.writeCgroups .Values.podLimits.qosReservedWrite -}}true{{- end -}}
{{- end }}
{{- define "plimsoll.agentUid" -}}
{{- if include "plimsoll.writesCgroups" . -}}0{{- else -}}{{ include "plimsoll.uid" . }}{{- end -}}
{{- end }}

{{/* Namespaces whose pods are left alone, and the release's own: sizing itself would be sawing at its own branch. */}}
{{- define "plimsoll.excludedNamespaces" -}}
{{- append (.Values.excludedNamespaces | default list) .Release.Namespace | uniq | join "," -}}
{{- end }}
{{/* The same where a write is refused whatever the settings say; nothing runs in kube-public, and nothing should. */}}
{{- define "plimsoll.protectedNamespaces" -}}
{{- concat (.Values.excludedNamespaces | default list) (list "kube-system" "kube-public" "kube-node-lease" .Release.Namespace) | uniq | sortAlpha | join "," -}}
{{- end }}

{{/* A text, or a list of texts as one with commas, as CEL writes it. JSON's quoting is CEL's too: whatever a value holds,
it stays a text. */}}
{{- define "plimsoll.celString" -}}
{{- toJson . -}}
{{- end }}
{{- define "plimsoll.celStrings" -}}
{{- toJson (splitList "," .) -}}
{{- end }}

{{/* Who writes, as policies see it: the user of the agents' tokens, of the webhook's, of the hook before an uninstall. */}}
{{- define "plimsoll.isAgent" -}}
request.userInfo.username == {{ include "plimsoll.celString" (printf "system:serviceaccount:%s:plimsoll-agent" .Release.Namespace) }}
{{- end }}
{{- define "plimsoll.isWebhook" -}}
request.userInfo.username == {{ include "plimsoll.celString" (printf "system:serviceaccount:%s:plimsoll-webhook" .Release.Namespace) }}
{{- end }}
{{- define "plimsoll.isRetire" -}}
request.userInfo.username == {{ include "plimsoll.celString" (printf "system:serviceaccount:%s:plimsoll-retire" .Release.Namespace) }}
{{- end }}

{{/* Whether the request is about a protected namespace: the same list as arbiter.protectedNamespaces. */}}
{{- define "plimsoll.isProtected" -}}
request.namespace in {{ include "plimsoll.celStrings" (include "plimsoll.protectedNamespaces" .) }}
{{- end }}

{{/* What holds in the fence for pods of which neither annotation nor namespace says a mode: what the configuration can
want at most. Rules that people write into the ConfigMap are not seen here. */}}
{{- define "plimsoll.unannotated" -}}
{{- .Values.fence.unannotated | default (ternary "refuse" "allow" (empty (include "plimsoll.writingMode" .))) -}}
{{- end }}

{{/* The mode that writes most of what the values name for pods without a word of their own; empty = none writes. */}}
{{- define "plimsoll.writingMode" -}}
{{- $modes := list (include "plimsoll.mode" .) -}}
{{- range .Values.cluster.rules -}}{{- $modes = append $modes (toString .mode) -}}{{- end -}}
{{- if has "enforce" $modes -}}enforce{{- else if has "protect" $modes -}}protect{{- end -}}
{{- end }}

{{/* The mode of such pods in the fence. With fence.unannotated=allow written by hand a rule of the ConfigMap may enforce. */}}
{{- define "plimsoll.unannotatedMode" -}}
{{- if eq (include "plimsoll.unannotated" .) "refuse" -}}unannotated (fence.unannotated)
{{- else if .Values.fence.unannotated -}}enforce
{{- else -}}{{ include "plimsoll.writingMode" . }}{{- end -}}
{{- end }}

{{/* The API server's token, its authority and the namespace, where clients look for them: an hour's life, bound to the
pod and through it to the node. */}}
{{- define "plimsoll.identity" -}}
- name: identity
  projected:
    sources:
      - serviceAccountToken: {path: token, expirationSeconds: 3600}
      - configMap:
          name: kube-root-ca.crt
          items: [{key: ca.crt, path: ca.crt}]
      - downwardAPI:
          items: [{path: namespace, fieldRef: {fieldPath: metadata.namespace}}]
{{- end }}

{{- define "plimsoll.replicas" -}}
{{- if kindIs "invalid" .Values.webhook.replicas -}}
{{- if .Values.webhook.postgresql.existingSecret -}}2{{- else -}}1{{- end -}}
{{- else -}}{{ .Values.webhook.replicas }}{{- end -}}
{{- end }}

{{/* `off` without quotes is false in YAML 1.1, and people write it so. */}}
{{- define "plimsoll.mode" -}}
{{- if eq (toString .Values.mode) "false" -}}off{{- else -}}{{ .Values.mode }}{{- end -}}
{{- end }}
