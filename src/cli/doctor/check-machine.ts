import { accessSync, constants, existsSync } from 'node:fs'
import { createServer } from 'node:net'
import { dirname } from 'node:path'
import { localUrlOf } from '../../config/base-url.ts'
import type { Config } from '../../config/config.ts'
import { listenErrorMessage } from '../../config/listen-error-message.ts'
import { isSwitchyardAt } from '../../supply/detection/is-switchyard-at.ts'
import { CHECK_TIMEOUT_MS } from './finding.ts'

/** Checks that this user can write to the data directory, or to the nearest existing directory above it. */
export function checkDataDirectory({ dataDir }: Config): string {
  let nearest = dataDir
  while (!existsSync(nearest) && dirname(nearest) !== nearest) nearest = dirname(nearest)
  try {
    accessSync(nearest, constants.W_OK | constants.X_OK)
  } catch {
    throw new Error(`This user cannot write to ${nearest}. Set SWITCHYARD_DATA to another directory.`)
  }
  return nearest === dataDir ? dataDir : `${dataDir} does not exist yet; the first start creates it`
}

/** Checks that the port is free or that a Switchyard server has it. */
export async function checkPort(config: Config): Promise<string> {
  const { host, port } = config.server
  const error = await new Promise<NodeJS.ErrnoException | undefined>(resolve => {
    const probe = createServer()
      .once('error', resolve)
      .listen({ host, port }, () => probe.close(() => resolve(undefined)))
  })
  if (!error) return port === 0 ? 'the system chooses a free port at the start' : `${port} on ${host} is free`
  if (error.code !== 'EADDRINUSE') throw new Error(listenErrorMessage(error, config.server))
  const localUrl = localUrlOf(config.server)
  if (await isSwitchyardAt(localUrl, CHECK_TIMEOUT_MS)) return `a Switchyard server runs at ${localUrl}`
  throw new Error(`Port ${port} on ${host} is taken by another program. Choose another port with --port or PORT.`)
}
