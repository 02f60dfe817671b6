#!/bin/sh
# Tries point-in-time recovery with pgBackRest: a PostgreSQL of its own in a temporary directory, books of Switchyard in it, a backup, a
# credit, an accident, and a restore to the moment before. Nothing else on this machine is touched, and nothing is left.
#
# Needs pgbackrest and the programs of a PostgreSQL in PATH, on Debian: apt-get install postgresql pgbackrest
#   PATH=/usr/lib/postgresql/15/bin:$PATH sh deploy/pgbackrest/try.sh
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
switchyard() {
  DATABASE_URL="postgres://switchyard@/switchyard?host=$dir&port=5432" SWITCHYARD_DATA=$dir/data SWITCHYARD_CONFIG=$dir/switchyard.yaml \
    "$root/bin/switchyard" "$@"
}

# PostgreSQL refuses to run as root.
if [ "$(id -u)" = 0 ]; then as() { runuser -u postgres -- env PATH="$PATH" "$@"; }; else as() { "$@"; }; fi
for program in pgbackrest initdb pg_ctl psql; do
  command -v $program >/dev/null || { echo "$program is not in PATH." >&2; exit 1; }
done

dir=$(mktemp -d)
chmod 711 "$dir"
mkdir "$dir/pg" "$dir/repo" "$dir/work" "$dir/data"
if [ "$(id -u)" = 0 ]; then chown postgres:postgres "$dir" "$dir/pg" "$dir/repo" "$dir/work"; fi
finish() {
  as pg_ctl -D "$dir/pg" -m immediate stop >/dev/null 2>&1 || true
  rm -rf "$dir"
}
trap finish EXIT
trap 'exit 1' INT TERM

step() { printf '\n== %s\n' "$1"; }
sql() { as psql -qAt -v ON_ERROR_STOP=1 -h "$dir" -U postgres "$@"; }
backrest() { as pgbackrest --config="$dir/pgbackrest.conf" --stanza=switchyard --log-level-console=warn "$@"; }
start() { as pg_ctl -D "$dir/pg" -l "$dir/work/postgres" -w start >/dev/null || { cat "$dir/work/postgres" >&2; exit 1; }; }

step 'a PostgreSQL that archives its WAL'
cat >"$dir/pgbackrest.conf" <<CONF
[global]
repo1-path=$dir/repo
repo1-retention-full=2
log-path=$dir/work
lock-path=$dir/work
spool-path=$dir/work
start-fast=y
[switchyard]
pg1-path=$dir/pg
pg1-socket-path=$dir
pg1-user=postgres
CONF
as initdb -D "$dir/pg" -U postgres -A trust -E UTF8 >/dev/null
cat >>"$dir/pg/postgresql.conf" <<CONF
listen_addresses = ''
unix_socket_directories = '$dir'
archive_mode = on
archive_command = '$(command -v pgbackrest) --config=$dir/pgbackrest.conf --stanza=switchyard archive-push %p'
CONF
start
sql -c 'CREATE ROLE switchyard LOGIN' -c 'CREATE DATABASE switchyard OWNER switchyard'
backrest stanza-create
backrest check

step 'books, and a full backup'
echo 'detect: { enabled: false }' >"$dir/switchyard.yaml"
switchyard init >/dev/null 2>&1
switchyard customer add ada@example.com >/dev/null 2>&1
backrest --type=full backup
backrest info

step 'a credit after the backup, then an accident'
switchyard credit grant ada@example.com 25 --paid --reason invoice --ref invoice-1 --yes
sleep 1
moment=$(sql -c "SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US\"+00\"')")
sleep 1
sql -d switchyard -c 'DROP TABLE api_key CASCADE'
sql -c 'SELECT pg_switch_wal()' >/dev/null

step "a restore to $moment"
as pg_ctl -D "$dir/pg" -m fast -w stop >/dev/null
backrest --delta --type=time --target="$moment" --target-action=promote restore
start
until [ "$(sql -c 'SELECT pg_is_in_recovery()')" = f ]; do sleep 0.2; done

step 'the table is back, the credit is there, and the books are right'
sql -d switchyard -c 'SELECT count(*) FROM api_key' >/dev/null
switchyard customer show ada@example.com
switchyard ledger audit >/dev/null
echo
echo 'Point-in-time recovery works.'
