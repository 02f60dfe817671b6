import { readFileSync, type Stats, statSync } from 'node:fs'
import { dirname } from 'node:path'

/**
 * How to run PostgreSQL's programs: prepend `prefix` to the command line, spawn with `spawn`, give the files
 * to `owner`.
 */
export interface Account {
  readonly prefix: readonly string[]
  readonly spawn: { readonly uid?: number; readonly gid?: number }
  readonly owner: { readonly uid: number; readonly gid: number } | undefined
}

/**
 * Chooses the account that runs PostgreSQL. An ordinary user runs it as itself. PostgreSQL refuses to run as
 * root, so root runs it as the owner of the cluster; a new cluster runs as the owner of the data directory,
 * or else as `postgres`, or else as `nobody`. Throws an error that says what to do when none of these works.
 *
 * @param clusterDir the cluster, which may not exist yet; its parent is the data directory and exists
 * @param programs directories that hold PostgreSQL's programs
 */
export function chooseAccount(clusterDir: string, programs: readonly string[]): Account {
  if (process.geteuid?.() !== 0) return { prefix: [], spawn: {}, owner: undefined }
  const owner = ownerOf(clusterDir) ?? ownerForNewCluster(dirname(clusterDir))
  if (owner.uid === 0)
    throw new Error(
      `${clusterDir} belongs to root, and PostgreSQL refuses to run as root. Give it to another user, for example: chown -R nobody ${clusterDir}`,
    )
  const capability = missingCapability(dirname(clusterDir), programs, owner)
  if (!capability) return { prefix: [], spawn: owner, owner }
  // A clone below /root (mode 0700) is common, and no other user can enter that directory. Giving
  // PostgreSQL this one capability is better than the alternatives tried: copying 60 MB of binaries and
  // moving the database out of the data directory, or opening the home directory to others. No database role
  // can use the capability: the only role that may log in is not a superuser, so it cannot read files.
  // no_setuid_fixup is needed because initdb uses access(2) to check its programs, and that call otherwise
  // ignores capabilities.
  const ids = [`--reuid=${owner.uid}`, `--regid=${owner.gid}`, '--clear-groups', '--securebits=+no_setuid_fixup']
  return {
    prefix: ['setpriv', ...ids, `--inh-caps=+${capability}`, `--ambient-caps=+${capability}`, '--'],
    spawn: {},
    owner,
  }
}

type Owner = { readonly uid: number; readonly gid: number }

function ownerOf(path: string): Owner | undefined {
  const stats = statSync(path, { throwIfNoEntry: false })
  return stats && { uid: stats.uid, gid: stats.gid }
}

function ownerForNewCluster(dataDir: string): Owner {
  const accounts = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map(line => line.split(':'))
    .map(([name, , uid, gid]) => ({ name, uid: Number(uid), gid: Number(gid) }))
  const { uid } = statSync(dataDir)
  // initdb requires a user with a name, so a uid without an entry in /etc/passwd does not work.
  const found =
    accounts.find(account => account.uid === uid && uid !== 0) ??
    accounts.find(account => account.name === 'postgres') ??
    accounts.find(account => account.name === 'nobody')
  if (!found)
    throw new Error(
      'PostgreSQL refuses to run as root, and this machine has no user `postgres` or `nobody`. Start Switchyard as an ordinary user, or set DATABASE_URL to a PostgreSQL you run.',
    )
  return { uid: found.uid, gid: found.gid }
}

/** Returns the capability `owner` needs to use the directories, or undefined when file modes already allow it. */
function missingCapability(
  dataDir: string,
  programs: readonly string[],
  owner: Owner,
): 'dac_read_search' | 'dac_override' | undefined {
  const closed = [dataDir, ...programs].flatMap(ancestors).find(path => !mayEnter(statSync(path), owner))
  if (!closed) return undefined
  const held = BigInt(`0x${/^CapEff:\s*([0-9a-f]+)/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? '0'}`)
  const holds = (capability: number) => (held & (1n << BigInt(capability))) !== 0n
  // Docker grants root DAC_OVERRIDE but not the weaker DAC_READ_SEARCH. Programs without an x bit for others (an
  // install under umask 077) need DAC_OVERRIDE too.
  const programsClosed = programs.some(path => !mayEnter(statSync(path), owner))
  if (holds(CAP_SETPCAP) && holds(CAP_DAC_READ_SEARCH) && !programsClosed) return 'dac_read_search'
  if (holds(CAP_SETPCAP) && holds(CAP_DAC_OVERRIDE)) return 'dac_override'
  throw new Error(
    `PostgreSQL refuses to run as root, and only root may enter ${closed}. Start Switchyard as an ordinary user, set SWITCHYARD_DATA to a directory other users may enter, or set DATABASE_URL.`,
  )
}

// Numbers from linux/capability.h.
const CAP_DAC_OVERRIDE = 1
const CAP_DAC_READ_SEARCH = 2
const CAP_SETPCAP = 8

function ancestors(path: string): string[] {
  const parent = dirname(path)
  return parent === path ? [path] : [...ancestors(parent), path]
}

function mayEnter(stats: Stats, owner: Owner): boolean {
  const bit = stats.uid === owner.uid ? 0o100 : stats.gid === owner.gid ? 0o010 : 0o001
  return (stats.mode & bit) !== 0
}
