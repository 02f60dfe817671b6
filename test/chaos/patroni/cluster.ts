import { execFileSync } from 'node:child_process'
import { chmodSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parse } from 'yaml'
import type { Connection } from '../../../src/base/db/open-database.ts'
import { createPool } from '../../../src/base/db/pool.ts'
import { eventually } from '../eventually.ts'
import { createHosts, type Host } from './network.ts'

/** Three machines, each with etcd, Patroni and PostgreSQL. */
export interface PatroniCluster {
  readonly hosts: readonly Host[]
  /** Starts the programs of a machine. */
  start(host: Host): void
  /** Resolves with the primary when all machines work: two standbys follow it, one of them in every commit. */
  whole(): Promise<Host>
  /** Lets Patroni make the standby of every commit the primary, as for maintenance. */
  switchOver(primary: Host): Promise<void>
}

export interface ClusterOptions {
  /** Patroni's `synchronous_mode`. */
  readonly isSynchronous: boolean
  /** Where the PostgreSQL of Debian has its programs. */
  readonly programs: string
}

/** Shorter than in the sample. 20 s is Patroni's smallest `ttl`. */
export const TIMES = { ttl: 20, loop_wait: 5, retry_timeout: 5 } as const

const NAMES = ['pg-1', 'pg-2', 'pg-3']
const PASSWORD = 'chaos'
const SAMPLE = new URL('../../../deploy/patroni/patroni.yaml', import.meta.url)

/** Starts the cluster and creates these databases, owned by the role of the returned login. */
export async function createCluster(
  options: ClusterOptions,
  databases: readonly string[],
): Promise<{ cluster: PatroniCluster; login: Connection }> {
  const directory = mkdtempSync(join(tmpdir(), 'patroni-'))
  chmodSync(directory, 0o711)
  const hosts = createHosts(NAMES)
  const start = (host: Host) => startMachine(host, hosts, join(directory, host.name), options)
  for (const host of hosts) {
    execFileSync('install', ['-d', '-o', 'postgres', '-m', '700', join(directory, host.name)])
    start(host)
  }
  const cluster: PatroniCluster = {
    hosts,
    start,
    async whole() {
      let primary: Host | undefined
      let views: (readonly Member[])[] = []
      const isWhole = async () => {
        views = await Promise.all(hosts.map(membersSeenBy))
        const leaders = new Set(views.map(members => leaderOf(members, options)))
        const [leader] = leaders
        primary = leaders.size === 1 ? hosts.find(({ name }) => name === leader) : undefined
        return primary !== undefined
      }
      await eventually('two standbys follow the primary', isWhole, { timeoutMs: WHOLE_MS_MAX, everyMs: 500 }).catch(
        (error: Error) => {
          const logs = hosts.map(({ name }) =>
            readFileSync(join(directory, name, 'patroni.log'), 'utf8').slice(-20_000),
          )
          throw new Error([error.message, ...views.map(view => JSON.stringify(view)), ...logs].join('\n'))
        },
      )
      return primary!
    },
    async switchOver({ name, address }) {
      const response = await fetch(`${apiOf(address)}/switchover`, {
        method: 'POST',
        body: JSON.stringify({ leader: name }),
      })
      if (!response.ok) throw new Error(`Patroni refuses to switch over: ${await response.text()}`)
    },
  }
  const { address: host } = await cluster.whole()
  const login = { port: 5432, user: 'switchyard', password: PASSWORD }
  const admin = createPool(
    { ...login, host, user: 'postgres', database: 'postgres' },
    { max: 1, applicationName: 'chaos set-up' },
  )
  await admin.query(`CREATE ROLE ${login.user} LOGIN PASSWORD '${PASSWORD}'`)
  for (const database of databases) await admin.query(`CREATE DATABASE ${database} OWNER ${login.user}`)
  await admin.end()
  return { cluster, login }
}

function startMachine(host: Host, hosts: readonly Host[], home: string, { programs, isSynchronous }: ClusterOptions) {
  const { name, peerAddress } = host
  const peers = hosts.map(peer => `${peer.name}=http://${peer.peerAddress}:2380`)
  host.run(
    [
      'etcd',
      ...['--name', name, '--data-dir', join(home, 'etcd')],
      ...[
        '--listen-peer-urls',
        `http://${peerAddress}:2380`,
        '--initial-advertise-peer-urls',
        `http://${peerAddress}:2380`,
      ],
      ...[
        '--listen-client-urls',
        `http://${peerAddress}:2379`,
        '--advertise-client-urls',
        `http://${peerAddress}:2379`,
      ],
      ...['--initial-cluster', peers.join(',')],
      // A busy machine answers late.
      ...['--heartbeat-interval', '200', '--election-timeout', '2000'],
    ],
    join(home, 'etcd.log'),
  )
  const sample = parse(readFileSync(SAMPLE, 'utf8'))
  const withPassword = ([use, login]: [string, object]) => [use, { ...login, password: PASSWORD }]
  const config = {
    ...sample,
    name,
    restapi: { ...sample.restapi, connect_address: `${peerAddress}:8008` },
    etcd3: { hosts: hosts.map(peer => `${peer.peerAddress}:2379`) },
    bootstrap: {
      ...sample.bootstrap,
      dcs: { ...sample.bootstrap.dcs, ...TIMES, synchronous_mode: isSynchronous },
    },
    postgresql: {
      ...sample.postgresql,
      connect_address: `${peerAddress}:5432`,
      bin_dir: programs,
      data_dir: join(home, 'data'),
      pgpass: join(home, 'pgpass'),
      authentication: Object.fromEntries(Object.entries<object>(sample.postgresql.authentication).map(withPassword)),
      parameters: { unix_socket_directories: home },
    },
    watchdog: { mode: 'off' },
  }
  const configFile = join(home, 'patroni.json')
  writeFileSync(configFile, JSON.stringify(config))
  host.run(['patroni', configFile], join(home, 'patroni.log'))
}

/** As in the answer of Patroni. */
interface Member {
  readonly name: string
  readonly role: string
  readonly state: string
  readonly timeline?: number
  readonly lag?: number | string
}

async function membersSeenBy({ address }: Host): Promise<readonly Member[]> {
  try {
    const response = await fetch(`${apiOf(address)}/cluster`, { signal: AbortSignal.timeout(2_000) })
    return ((await response.json()) as { members: Member[] }).members
  } catch {
    return []
  }
}

/** The name of the primary if all machines work, otherwise undefined. */
function leaderOf(members: readonly Member[], { isSynchronous }: ClusterOptions): string | undefined {
  const leader = members.find(({ role }) => role === 'leader')
  const standbys = members.filter(member => member !== leader)
  const isFollowing = ({ state, timeline, lag }: Member) =>
    ['running', 'streaming'].includes(state) && timeline === leader?.timeline && Number(lag) < LAG_BYTES_MAX
  const isWhole =
    standbys.length === NAMES.length - 1 &&
    standbys.every(isFollowing) &&
    standbys.some(({ role }) => role === 'sync_standby') === isSynchronous
  return isWhole ? leader?.name : undefined
}

/** A machine that comes back may have to copy the pages that differ, and to recover first. */
const WHOLE_MS_MAX = 180_000

/** The load goes on, so the standbys are always a little behind. */
const LAG_BYTES_MAX = 1 << 20

function apiOf(address: string): string {
  return `http://${address}:8008`
}
