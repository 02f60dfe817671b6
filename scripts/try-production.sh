#!/bin/bash
# Follows docs/production.md: runs its blocks, in their order, on three machines that this one pretends to be, and then what its table
# "See it fail" says, under load. Needs root, the packages of the page and those of Prometheus.
#
# A machine is a network namespace with a bridge between them, a pid namespace, which dies as a machine that is switched off, and an overlay
# over the files of this one, so that nothing here changes. `systemctl` is a script that starts what the units name. There is no bucket:
# pgBackRest writes to a folder that all three mount.
set -euo pipefail
cd "$(dirname "$0")/.."
repository=$PWD
[ "$(id -u)" -eq 0 ] || { echo 'Run this as root.' >&2; exit 2; }
work=$(mktemp -d)
bridge=swy-prod
machines='1 2 3'

fail() {
  echo "FAILED: $1" >&2
  for log in "$work"/files/*/upper/var/log/*.shim.log; do echo "-- $log" >&2; tail -n 15 "$log" >&2; done
  exit 1
}

finish() {
  for n in $machines; do switch_off "$n"; ip link delete "$bridge-$n" 2>/dev/null || true; ip netns delete "$bridge-$n" 2>/dev/null || true; done
  ip link delete "$bridge" 2>/dev/null || true
  umount "$work/files" 2>/dev/null || true
  rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' INT TERM
trap 'echo "FAILED at line $LINENO" >&2' ERR

# ---- machines

switch_off() { [ ! -e "$work/$1.pid" ] || { kill -KILL "$(cat "$work/$1.pid")" 2>/dev/null || true; rm "$work/$1.pid"; }; }

switch_on() {
  # --kill-child: the shell below is process 1 of the machine.
  ip netns exec "$bridge-$1" unshare --mount --pid --fork --kill-child bash -euc '
    n=$1 files=$2 repository=$3 work=$4
    mkdir -p "$files/$n/upper" "$files/$n/work" "$files/$n/root"
    mount -t overlay overlay -o "lowerdir=/,upperdir=$files/$n/upper,workdir=$files/$n/work" "$files/$n/root"
    root=$files/$n/root
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs tmpfs "$root/run"
    mount -t tmpfs tmpfs "$root/tmp"
    mkdir -p "$root/opt/switchyard" "$root/srv/repository"
    mount --bind "$repository" "$root/opt/switchyard"
    mount --bind "$files/repository" "$root/srv/repository"
    cp "$work/systemctl" "$root/usr/local/bin/systemctl"
    printf "#!/bin/sh\n" >"$root/usr/local/bin/apt-get"
    chmod 755 "$root/usr/local/bin/systemctl" "$root/usr/local/bin/apt-get"
    hostname "node-$n" 2>/dev/null || true
    # Process 1 reaps what has ended: Patroni waits until the PostgreSQL that it stopped is gone.
    exec chroot "$root" bash -c "while :; do sleep 60 & wait; done"
  ' bash "$1" "$work/files" "$repository" "$work" &
  local parent=$!
  until pid=$(pgrep --parent "$parent" --full '^bash -c while'); do kill -0 "$parent" || fail "machine $1 does not start"; sleep 0.1; done
  echo "$pid" >"$work/$1.pid"
}

# Runs a file on a machine. Arguments: the machine, the file.
on() {
  nsenter --target "$(cat "$work/$1.pid")" --mount --net --pid chroot "$work/files/$1/root" env -i HOME=/root LANG=C.UTF-8 \
    PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin EDITOR=/srv/repository/editor CURL_CA_BUNDLE=/etc/haproxy/gateway.pem number="$1" name=gateway.example.com \
    address="10.0.0.1$1" bash -euo pipefail -s < <(echo 'cd /root'; cat "$2")
}
# The same for a command.
say_on() { on "$1" <(echo "$2"); }

issue_key() {
  cli 1 'customer add ada@example.com' >/dev/null
  cli 1 'credit grant ada@example.com 100 --paid --reason "a test" --yes' >/dev/null
  cli 1 'customer limits ada@example.com --requests-per-minute 100000 --requests-per-day 1000000' >/dev/null
  cli 1 'key issue ada@example.com --name load' | grep -o 'sk-sy-[A-Za-z0-9_-]*' | head -n 1
}

copy_from_first() {
  for n in 2 3; do
    say_on 1 "cat $1" >"$work/copied"
    on "$n" <(echo "install -d /etc/switchyard; base64 -d >$1 <<'FILE'"; base64 "$work/copied"; echo FILE; echo "chmod 600 $1")
  done
}

leader() {
  for n in $machines; do
    [ -e "$work/$n.pid" ] || continue
    [ "$(say_on "$n" 'curl --silent --output /dev/null --max-time 2 --write-out "%{http_code}" localhost:8008/primary || true')" != 200 ] || { echo "$n"; return; }
  done
  return 1
}

gateway_env='set -a; . /etc/switchyard/secrets.env; set +a; export SWITCHYARD_DATA=/var/lib/switchyard SWITCHYARD_CONFIG=/etc/switchyard/switchyard.yaml'
cli() { say_on "$1" "$gateway_env; /opt/switchyard/bin/switchyard $2"; }

# Arguments: seconds, what is waited for, the command.
wait_for() {
  local until=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" >/dev/null 2>&1; do [ $SECONDS -lt "$until" ] || fail "$what"; sleep 0.5; done
}

has_standbys() { [ "$(say_on "$1" '/opt/patroni/bin/patronictl -c /etc/patroni/config.yml list' | grep -c -E 'streaming')" -eq "$2" ]; }

cat >"$work/systemctl" <<'SYSTEMCTL'
#!/bin/bash
# Starts and stops what a unit names, in place of systemd. Knows `Type=notify` of the gateway only by its /readyz.
set -euo pipefail
verb=$1; shift
[ "$verb" != daemon-reload ] || exit 0
unit=${!#}
file=/etc/systemd/system/$unit.service
[ -e "$file" ] || file=/lib/systemd/system/$unit.service
setting() { sed -n "s/^$1=-\{0,1\}//p" "$file" | tail -n 1; }
pid_file=/run/$unit.pid.shim
user=$(setting User)
stop() {
  [ -e "$pid_file" ] || return 0
  pid=$(cat "$pid_file"); rm "$pid_file"
  kill -TERM "$pid" 2>/dev/null || return 0
  while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
}
start() {
  set -a
  while read -r line; do eval "export ${line#Environment=}"; done < <(grep '^Environment=' "$file" | sed 's/%H/localhost/')
  while read -r line; do line=${line#EnvironmentFile=}; line=${line#-}; line=${line//%p/$unit}; [ ! -e "$line" ] || . "$line"; done < <(grep '^EnvironmentFile=' "$file")
  set +a
  for kind in Runtime:/run State:/var/lib Cache:/var/cache; do
    directory=$(setting "${kind%%:*}Directory")
    [ -z "$directory" ] || install -d -o "${user:-root}" "${kind#*:}/$directory"
  done
  command=$(eval "echo $(grep '^ExecStart=' "$file" | tail -n 1 | sed 's/^ExecStart=//')")
  HOME=$(getent passwd "${user:-root}" | cut -d : -f 6)
  # HAProxy needs two files for each connection; systemd allows that many, the machine of a container may not.
  [ "$unit" != haproxy ] || [ "$(ulimit -Hn)" = unlimited ] || [ "$(ulimit -Hn)" -ge 40000 ] ||
    sed -i 's/^  maxconn .*/  maxconn 8000/' /etc/haproxy/haproxy.cfg
  cd "$(setting WorkingDirectory | grep . || echo /)"
  setsid setpriv --reuid "${user:-root}" --regid "$(id -g "${user:-root}")" --init-groups $command >>"/var/log/$unit.shim.log" 2>&1 </dev/null &
  echo $! >"$pid_file"
  if [ "$unit" = switchyard ]; then
    for _ in $(seq 240); do curl --silent --fail --output /dev/null "http://$(sed -n 's/^  host: //p' /etc/switchyard/switchyard.yaml | head -n 1):8080/readyz" && exit 0; sleep 0.5; done
    tail -n 20 "/var/log/$unit.shim.log" >&2; exit 1
  fi
}
case $verb in
  enable) [[ " $* " != *' --now '* ]] || { stop; start; } ;;
  start) start ;;
  restart) stop; start ;;
  stop) stop ;;
  reload) kill -HUP "$(cat "$pid_file")" ;;
  *) echo "systemctl $verb is not known here" >&2; exit 1 ;;
esac
SYSTEMCTL

mkdir "$work/files"
mount -t tmpfs tmpfs "$work/files"
chmod 755 "$work" "$work/files"
mkdir "$work/files/repository"
chmod 777 "$work/files/repository"
cat >"$work/files/repository/editor" <<'EDITOR'
#!/bin/sh
# In place of the bucket and its keys that the page asks for.
sed -i -e '/^repo1-s3/d; s#^repo1-type=.*#repo1-type=posix#; s#^repo1-path=.*#repo1-path=/srv/repository#; s#^repo1-cipher-pass=.*#repo1-cipher-pass=of-this-run#' "$1"
EDITOR
chmod 755 "$work/files/repository/editor"

ip link add "$bridge" type bridge
ip address add 10.0.0.1/24 dev "$bridge"
ip link set "$bridge" up
for n in $machines; do
  ip netns add "$bridge-$n"
  ip link add "$bridge-$n" type veth peer name eth0 netns "$bridge-$n"
  ip link set "$bridge-$n" master "$bridge" up
  ip -n "$bridge-$n" address add "10.0.0.1$n/24" dev eth0
  ip -n "$bridge-$n" link set lo up
  ip -n "$bridge-$n" link set eth0 up
  switch_on "$n"
done

# ---- the page: one file for each block, named by where it runs

mkdir "$work/blocks"
awk -v out="$work/blocks/" '
  /^## /       { section = substr($2, 1, 1); text = "" }
  /^```sh$/    { inside = 1; place = text ~ /\*\*[Oo]n node-1\*\*/ ? "first" : text ~ /\*\*[Oo]n node-3\*\*/ ? "third" : text ~ /\*\*[Oo]n the leader\*\*/ ? "leader" : "each"
                 file = sprintf("%s%02d-%s-%s", out, ++count, section, place); next }
  /^```$/      { inside = 0; text = ""; next }
  inside       { print >file; next }
  /^$/         { paragraph = 1; next }
               { text = paragraph ? $0 : text " " $0; paragraph = 0 }
' docs/production.md

started=$SECONDS
for block in "$work"/blocks/*; do
  title=$(basename "$block")
  if grep -q 'sk-sy-\.\.\.' "$block"; then
    key=$(issue_key)
    sed -i -e "s/sk-sy-\.\.\./$key/; s/\"model\":\"\.\.\.\"/\"model\":\"demo\"/" "$block"
    for n in $machines; do say_on "$n" "echo '10.0.0.1$n gateway.example.com' >>/etc/hosts"; done
  fi
  case $title in
    *-each)
      # The first one creates, the others join.
      case $(head -n 3 "$block") in
        *'systemctl stop etcd'*) for n in $machines; do on "$n" "$block" & done; wait $(jobs -p | tail -n 3) ;;
        *) for n in $machines; do
             # The address of clients is the name of a customer here, and the model is the demo.
             sed -e 's/enabled: false/enabled: true/' "$block" >"$work/block"
             on "$n" "$work/block"
             if [ "$n" = 1 ] && grep -q patroni.service "$block"; then wait_for 60 'no leader' leader; fi
           done ;;
      esac ;;
    *-first) on 1 "$block" ;;
    *-third) on 3 "$block" ;;
    *-leader) on "$(leader)" "$block" ;;
  esac
  echo "ok: block $title"
  ! grep -q '>/etc/switchyard/passwords' "$block" || copy_from_first /etc/switchyard/passwords
  ! grep -q '>/etc/switchyard/secrets.env' "$block" || copy_from_first /etc/switchyard/secrets.env
  ! grep -q 'systemctl enable --now patroni' "$block" || wait_for 90 'not all standbys stream' has_standbys 1 2
done
echo "the page took $((SECONDS - started)) s, without packages"

# ---- "See it fail"

patronictl() { say_on "$1" "/opt/patroni/bin/patronictl -c /etc/patroni/config.yml $2"; }
is_ready() { [ "$(say_on "$1" "curl --silent --output /dev/null --max-time 2 --write-out '%{http_code}' http://10.0.0.1$1:8080/readyz || true")" = 200 ]; }

# Sends requests while the arguments run. Leaves what became of them in `$work/load`.
under_load() {
  node_modules/.bin/node scripts/load-production.ts "$key" gateway.example.com 10.0.0.11 10.0.0.12 10.0.0.13 >"$work/load" 2>&1 &
  local load=$!
  until grep -q '^sending' "$work/load"; do kill -0 $load || fail "no load: $(cat "$work/load")"; sleep 0.2; done
  "$@"
  kill -TERM $load
  wait $load || true
  tail -n 1 "$work/load"
}
failed() { sed -n 's/^\([0-9]*\) requests, \([0-9]*\) failed.*/\2/p' "$work/load"; }

roll() { for n in $machines; do say_on "$n" 'systemctl restart switchyard'; wait_for 60 "gateway $n is not ready" is_ready "$n"; done; }
under_load roll
[ "$(failed)" = 0 ] || fail "restarts one after the other: $(cat "$work/load")"
echo 'ok: gateways were restarted one after the other'

switch_over() { patronictl "$(leader)" 'switchover --force' >/dev/null; wait_for 60 'no leader' leader; wait_for 90 'not all standbys stream' has_standbys "$(leader)" 2; }
under_load switch_over
echo 'ok: another machine is the leader on purpose'

lost=$(leader)
lose_leader() { switch_off "$lost"; wait_for 60 'no standby took over' leader; echo "a standby took over within $((SECONDS - off)) s"; sleep 20; }
off=$SECONDS
under_load lose_leader
echo 'ok: the machine of the leader was switched off'

come_back() {
  switch_on "$lost"
  # What systemd starts with the machine.
  for unit in etcd patroni haproxy switchyard; do say_on "$lost" "systemctl start $unit"; done
  wait_for 90 'the machine that came back does not stream' has_standbys "$(leader)" 2
  wait_for 60 'the gateway that came back is not ready' is_ready "$lost"
}
under_load come_back
echo 'ok: it came back as a standby'

cli 2 'ledger audit' >"$work/audit" || fail "the audit: $(cat "$work/audit")"
tail -n 1 "$work/audit"

moment=$(say_on "$(leader)" "cd / && runuser -u postgres -- psql -h /var/run/postgresql -At -c 'SELECT now()'")
under_load sleep 5
say_on "$(leader)" "cd / && runuser -u postgres -- psql -h /var/run/postgresql -At -d switchyard -c 'SELECT pg_switch_wal()'" >/dev/null
leader=$(leader)
standby=$((leader % 3 + 1))
restore() {
  say_on "$standby" "
    install -d -o postgres -m 700 /var/lib/postgresql/restored
    cd / && as() { runuser -u postgres -- \"\$@\"; }
    as pgbackrest --stanza=switchyard --pg1-path=/var/lib/postgresql/restored --type=time --target='$moment' --target-action=promote --archive-mode=off restore
    as \$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)/pg_ctl --pgdata /var/lib/postgresql/restored --wait --timeout 120 --log /tmp/restored.log \
      --options '-c port=5599 -c listen_addresses=127.0.0.1 -c unix_socket_directories=/tmp -c synchronous_standby_names=' start
    until [ \"\$(as psql -h /tmp -p 5599 -At -c 'SELECT pg_is_in_recovery()')\" = f ]; do sleep 0.5; done
    set -a; . /etc/switchyard/secrets.env; set +a
    export DATABASE_OWNER_URL=\${DATABASE_OWNER_URL/5000/5599} DATABASE_URL=\${DATABASE_URL/5000/5599} DATABASE_DESK_URL=\${DATABASE_DESK_URL/5000/5599}
    SWITCHYARD_DATA=/tmp/none /opt/switchyard/bin/switchyard ledger audit"
}
restore >"$work/restored" 2>&1 || fail "the restored copy: $(tail -n 20 "$work/restored")"
echo "ok: restored to $moment: $(tail -n 1 "$work/restored")"
