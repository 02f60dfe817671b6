#!/bin/sh
# Checks deploy/helm/switchyard: helm lint, helm template with each file of deploy/helm/values, and kubeconform over what that gives. Needs helm 3 or
# newer and kubeconform. With Go: go install helm.sh/helm/v3/cmd/helm@v3.22.0, go install github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0.
#
#   scripts/check-chart.sh            # with the schemas of Kubernetes and of custom resources from GitHub
#   scripts/check-chart.sh OPTIONS    # with others: OPTIONS go to kubeconform
#
# Without GitHub, the package kubernetes-validate of PyPI has the schemas of Kubernetes (pip download --no-deps kubernetes-validate, and unzip it). They
# refer to a file beside them, which kubeconform does not follow, so bring its definitions into each:
#
#   cd kubernetes_validate/kubernetes-json-schema/v1.37.0-local-strict && mkdir /tmp/schemas
#   jq '{"$defs"}' _definitions.json >/tmp/definitions.json
#   for kind in configmap-v1 service-v1 serviceaccount-v1 statefulset-apps-v1 job-batch-v1 poddisruptionbudget-policy-v1 \
#     horizontalpodautoscaler-autoscaling-v2 networkpolicy-networking-v1 ingress-networking-v1; do
#     sed 's,"/api/_definitions.json#,"#,' $kind.json | jq -s '.[0] + .[1]' - /tmp/definitions.json >/tmp/schemas/$kind.json
#   done
#
# scripts/openapi2jsonschema.py of kubeconform makes those of custom resources from the CRDs of the Prometheus Operator and of CloudNativePG: in
# /tmp/schemas, FILENAME_FORMAT='{fullgroup}_{kind}_{version}' python3 openapi2jsonschema.py CRD.yaml. Then:
#
#   scripts/check-chart.sh -schema-location '/tmp/schemas/{{.ResourceKind}}{{.KindSuffix}}.json' \
#     -schema-location '/tmp/schemas/{{.Group}}_{{.ResourceKind}}_{{.ResourceAPIVersion}}.json'
set -eu
cd "$(dirname "$0")/../deploy/helm"
[ $# -gt 0 ] || set -- -schema-location default -schema-location \
  'https://raw.githubusercontent.com/datreeio/CRDs-catalog/main/{{.Group}}/{{.ResourceKind}}_{{.ResourceAPIVersion}}.json'
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# A helm that was built with go install names Kubernetes 1.20, for which the chart is not.
kube=1.34.0
helm lint --strict --kube-version "$kube" switchyard
for values in values/*.yaml; do
  name=$(basename "$values" .yaml)
  helm lint --strict --quiet --kube-version "$kube" switchyard --values "$values"
  # An upgrade, so that its hooks are there too.
  helm template release switchyard --namespace switchyard --kube-version "$kube" --is-upgrade --values "$values" >"$work/$name.yaml"
  printf '%s: ' "$name"
  kubeconform -strict -summary "$@" "$work/$name.yaml"
done
printf 'cloudnativepg-cluster: '
kubeconform -strict -summary "$@" cloudnativepg-cluster.yaml
