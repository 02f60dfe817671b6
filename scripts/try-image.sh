#!/bin/sh
# Builds deploy/Dockerfile without a Docker engine, starts the image and asks it for an answer. Needs root and buildah.
#
#   scripts/try-image.sh                  # with the images of FROM, from their registry
#   scripts/try-image.sh DEBIAN NODE      # with two folders in their place: the root of a Debian, and of a Debian with node and npm
#
# The first folder is what `debootstrap --variant=minbase bookworm DEBIAN` makes. The second one is a copy of it with the bin/node,
# lib/node_modules/npm and bin/npm and bin/npx, which are links into that, of any Node 20 or newer in /usr/local. If the npm registry is reached with
# certificates of your own, add them too, and name them in usr/local/etc/npmrc.
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
image=localhost/switchyard-try-$$
debian=localhost/switchyard-try-debian-$$
node=localhost/switchyard-try-node-$$
container=
gateway=

finish() {
  # The gateway itself, since buildah does not pass signals on.
  [ -z "$gateway" ] || kill -TERM "$(cat "$root/tmp/pid")" || true
  [ -z "$gateway" ] || wait "$gateway" || true
  [ -z "$container" ] || buildah rm "$container" >/dev/null || true
  for name in "$image" "$debian" "$node"; do buildah rmi "$name" >/dev/null 2>&1 || true; done
  rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' INT TERM

# Makes an image of a folder. Arguments: the folder, the name.
import() {
  from=$(buildah from scratch)
  buildah add --quiet "$from" "$1" / >/dev/null
  buildah commit --quiet "$from" "$2" >/dev/null
  buildah rm "$from" >/dev/null
}

cp deploy/Dockerfile "$work/Dockerfile"
if [ $# -eq 2 ]; then
  import "$1" "$debian"
  import "$2" "$node"
  sed -i -e "s#^FROM node:[^ ]*#FROM $node#" -e "s#^FROM debian:[^ ]*#FROM $debian#" "$work/Dockerfile"
fi
buildah build --no-cache --force-rm --isolation chroot --network host --ignorefile deploy/Dockerfile.dockerignore --file "$work/Dockerfile" --tag "$image" .

container=$(buildah from "$image")
port=$(node -e "const s = require('net').createServer().listen(0, '127.0.0.1', () => { console.log(s.address().port); s.close() })")
in_image() {
  buildah run --isolation chroot --network host --env HOST=127.0.0.1 --env METRICS_PORT=0 --env "PORT=$port" "$container" -- "$@"
}
key=$(in_image /opt/switchyard/bin/switchyard init --email you@example.com --json | sed -n 's/.*"api_key":"\([^"]*\)".*/\1/p')
root=$(buildah mount "$container")
in_image /bin/sh -c 'echo $$ >/tmp/pid && exec /opt/switchyard/bin/switchyard start' &
gateway=$!
tries=0
until curl --silent --fail --output /dev/null "http://127.0.0.1:$port/readyz"; do
  tries=$((tries + 1))
  [ "$tries" -lt 120 ] || { echo "The gateway in the image is not ready after a minute." >&2; exit 1; }
  sleep 0.5
done
echo "readyz: $(curl --silent "http://127.0.0.1:$port/readyz")"
curl --silent --fail "http://127.0.0.1:$port/v1/chat/completions" --header "Authorization: Bearer $key" \
  --header 'Content-Type: application/json' --data '{"model":"demo","messages":[{"role":"user","content":"Hello!"}],"max_tokens":20}'
echo
curl --silent --fail --output /dev/null "http://127.0.0.1:$port/" && echo "The console answers."
