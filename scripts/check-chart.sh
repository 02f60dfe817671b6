#!/bin/sh
# Checks deploy/helm/switchyard: helm lint, helm template with each file of deploy/helm/values, and kubeconform over what that gives. Needs helm 3 or
# newer and kubeconform.
#
#   scripts/check-chart.sh                    # with the schemas of Kubernetes and of custom resources from GitHub
#   scripts/check-chart.sh -schema-location DIR/'{{ .ResourceKind }}.json'   # with your own: all arguments go to kubeconform
set -eu
cd "$(dirname "$0")/../deploy/helm"
[ $# -gt 0 ] || set -- -schema-location default -schema-location \
  'https://raw.githubusercontent.com/datreeio/CRDs-catalog/main/{{.Group}}/{{.ResourceKind}}_{{.ResourceAPIVersion}}.json'
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
helm lint --strict switchyard
for values in values/*.yaml; do
  name=$(basename "$values" .yaml)
  helm lint --strict --quiet switchyard --values "$values"
  # An upgrade, so that its hooks are there too.
  helm template release switchyard --namespace switchyard --is-upgrade --values "$values" >"$work/$name.yaml"
  printf '%s: ' "$name"
  kubeconform -strict -summary "$@" "$work/$name.yaml"
done
cp cloudnativepg-cluster.yaml "$work"
printf 'cloudnativepg-cluster: '
kubeconform -strict -summary "$@" "$work/cloudnativepg-cluster.yaml"
