import { existsSync, mkdtempSync, rmdirSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { localUrlOf } from '../../config/base-url.ts'
import type { Config } from '../../config/config.ts'
import { listenProblem, tryToListen } from '../../start/listen-problem.ts'
import { findRunningServer } from '../../start/running-server.ts'
import { isSwitchyardAt } from '../../supply/detection/is-switchyard-at.ts'
import { CHECK_TIMEOUT_MS } from './finding.ts'

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
