import { execFileSync, spawn } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { killOnExit } from '../../harness/clean-up-on-exit.ts'
import { eventually } from '../eventually.ts'

/** A machine of the cluster: a network namespace with a link to the gateways and one to the other machines. */
export interface Host {
  readonly name: string
  /** Where the gateways reach it. */
  readonly address: string
  /** Where the other machines reach it. */
  readonly peerAddress: string
  /** Runs a program on this machine, without root's rights. Its output goes to the file. */
  run(command: readonly string[], logFile: string): void
  /** Sends the signal to all its processes. Resolves, after SIGKILL, when they have ended. */
  signal(name: 'SIGKILL' | 'SIGSTOP' | 'SIGCONT'): Promise<void>
  /** Loses every packet, in silence, of all links or of that to the other machines. */
  unplug(links: 'all' | 'peers'): void
  plugIn(): void
}

/** Addresses that documentation may use, so that no packet can have another destination: https://www.rfc-editor.org/rfc/rfc5737 */
const NETWORKS = { gateways: '192.0.2', peers: '198.51.100' } as const
type Network = keyof typeof NETWORKS

/**
 * Creates machines with a switch for each of two networks. This process must be root in a network namespace of its
 * own, where it is the machine of the gateways.
 */
export function createHosts(names: readonly string[]): readonly Host[] {
  ip('link set lo up')
  for (const network of Object.keys(NETWORKS)) {
    ip(`link add ${network} type bridge`)
    ip(`link set ${network} up`)
  }
  ip(`addr add ${NETWORKS.gateways}.254/24 dev gateways`)
  return names.map((name, index) => createHost(name, index + 1))
}

function createHost(name: string, number: number): Host {
  ip(`netns add ${name}`)
  ip(`-n ${name} link set lo up`)
  const networks = Object.keys(NETWORKS) as Network[]
  const portOf = (network: Network) => `${name}-${network}`
  for (const network of networks) {
    ip(`link add ${portOf(network)} type veth peer name ${network} netns ${name}`)
    ip(`link set ${portOf(network)} master ${network} up`)
    ip(`-n ${name} addr add ${NETWORKS[network]}.${number}/24 dev ${network}`)
    ip(`-n ${name} link set ${network} up`)
  }
  const pids = () => ip(`netns pids ${name}`).split('\n').filter(Boolean).map(Number)
  return {
    name,
    address: `${NETWORKS.gateways}.${number}`,
    peerAddress: `${NETWORKS.peers}.${number}`,
    run(command, logFile) {
      const log = openSync(logFile, 'a')
      const asPostgres = ['setpriv', '--reuid=postgres', '--regid=postgres', '--clear-groups']
      const args = ['netns', 'exec', name, ...asPostgres, ...command]
      killOnExit(spawn('ip', args, { stdio: ['ignore', log, log] }))
      closeSync(log)
    },
    async signal(signal) {
      const known = new Set<number>()
      // Again for the processes that others have started since.
      for (let found = pids(); found.some(pid => !known.has(pid)); found = pids()) {
        for (const pid of found) if (!known.has(pid)) kill(pid, signal)
        for (const pid of found) known.add(pid)
      }
      if (signal === 'SIGKILL') await eventually(`the processes of ${name} have ended`, () => pids().length === 0)
    },
    unplug(links) {
      for (const network of links === 'all' ? networks : (['peers'] as const))
        ip(`link set ${portOf(network)} nomaster`)
    },
    plugIn() {
      for (const network of networks) ip(`link set ${portOf(network)} master ${network}`)
    },
  }
}

function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    // It has ended since.
    if ((error as { code?: string }).code !== 'ESRCH') throw error
  }
}

function ip(args: string): string {
  return execFileSync('ip', args.split(' '), { encoding: 'utf8' })
}
