import { welcome } from './cli/welcome.ts'
import type { Config } from './config.ts'
import type { Connection } from './db/embedded.ts'
import { createPool } from './db/pool.ts'
import { ensureFirstRun } from './first-run.ts'
import type { Finding } from './market/detect-local.ts'
import { listHosters } from './market/hosters.ts'

export interface AnnounceFacts {
  readonly config: Config
  readonly connection: Connection
  /** The one that the gateway listens on. */
  readonly port: number
  readonly findings: readonly Finding[]
}

/** Tells the operator on stdout that requests are taken. On a new installation it first makes the customer and the key that it shows. */
export async function announce({ config, connection, port, findings }: AnnounceFacts): Promise<void> {
  const setup = createPool(connection, { max: 1, applicationName: 'switchyard first run' })
  try {
    const created = await ensureFirstRun({ pool: setup, config })
    const hosters = (await listHosters(setup)).filter(({ state }) => state === 'active')
    process.stdout.write(welcome({ config, port, created, findings, hosters }))
  } finally {
    await setup.end()
  }
}
