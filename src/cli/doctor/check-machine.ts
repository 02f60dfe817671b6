import { existsSync, mkdtempSync, rmdirSync, statSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { ownCommand } from '../../base/runtime/own-command.ts'
import { isSwitchyardAt } from '../../market/supply/detection/is-switchyard-at.ts'
import { listJournalFiles } from '../../money/ledger/journal/journal-files.ts'
import { localUrlOf } from '../../start/config/base-url.ts'
import type { Config } from '../../start/config/config.ts'
import { listenProblem, tryToListen } from '../../start/listen-problem.ts'
import { findRunningServer } from '../../start/running-server.ts'
import { parseOutboundUrl } from '../../wire/egress/outbound-url.ts'
import { CHECK_TIMEOUT_MS, type Finding } from './finding.ts'

/** Checks that this user can write to the data directory, or to the nearest existing directory above it. */
export function checkDataDirectory({ dataDir }: Config): string {
  let nearest = dataDir
  while (!existsSync(nearest) && dirname(nearest) !== nearest) nearest = dirname(nearest)
  if (!statSync(nearest).isDirectory())
    throw new Error(`${nearest} is not a directory. Set SWITCHYARD_DATA to another path.`)
  try {
    // The permissions alone do not tell: root has all of them in /proc, which takes no directories.
    rmdirSync(mkdtempSync(join(nearest, '.switchyard-doctor-')))
  } catch {
    throw new Error(`This user cannot write to ${nearest}. Set SWITCHYARD_DATA to another directory.`)
  }
  return nearest === dataDir ? dataDir : `${dataDir} does not exist yet; the first start creates it`
}

/** Finds damaged segments, which every process keeps for the operator. */
export function checkJournals({ dataDir }: Pick<Config, 'dataDir'>): Finding[] {
  const damaged = listJournalFiles(join(dataDir, 'journal')).filter(({ isInUse }) => !isInUse)
  if (damaged.length === 0) return []
  const names = damaged.map(({ path }) => relative(dataDir, path)).join(', ')
  const detail = `damaged, so answers may have been free: ${names}. Run ${ownCommand('journal inspect')}, then move the files away.`
  return [{ check: 'journals', ok: true, warning: true, detail }]
}

/** Finds a public name without TLS. A name of a closed network, or of this machine, needs none. */
export function checkPublicUrl({ server }: Pick<Config, 'server'>): Finding[] {
  const url = server.publicBaseUrl === null ? null : new URL(server.publicBaseUrl)
  if (url?.protocol !== 'http:') return []
  const name = parseOutboundUrl(`https://${url.hostname}/`, { allowPrivate: false, allowQuery: false })
  if (typeof name === 'string') return []
  const detail = `${url.origin} is public and has no TLS, so others can read passwords and keys on their way. Put a proxy with TLS in front of the gateway, and set server.public_base_url to https://${url.hostname}.`
  return [{ check: 'public URL', ok: true, warning: true, detail }]
}

/** Checks that the port is free or that a Switchyard server has it. */
export async function checkPort({ dataDir, server }: Config): Promise<string> {
  const running = findRunningServer(dataDir)
  if (running && (await isSwitchyardAt(localUrlOf(running), CHECK_TIMEOUT_MS)))
    return `a Switchyard server runs at ${localUrlOf(running)}`
  const { host, port } = server
  const error = await tryToListen(server)
  if (!error) return port === 0 ? 'the system chooses a free port at the start' : `${port} on ${host} is free`
  if (error.code === 'EADDRINUSE' && (await isSwitchyardAt(localUrlOf(server), CHECK_TIMEOUT_MS)))
    return `a Switchyard server runs at ${localUrlOf(server)}`
  throw new Error(await listenProblem(error, server))
}
