import type { Connection } from '../base/db/open-database.ts'
import { createPool } from '../base/db/pool.ts'
import type { MasterKeys } from '../base/secrets/master-keys.ts'
import type { Finding } from '../market/supply/detection/detect-local.ts'
import { readHosterOffers } from '../market/supply/hosters/hoster-offers.ts'
import type { Config } from './config/config.ts'
import { ensureFirstRun } from './first-run.ts'
import { welcome } from './welcome.ts'

export interface AnnounceInput {
  readonly config: Config
  /** Creates the first customer with its credit, which the gateway role may not. */
  readonly owner: Connection
  readonly masterKeys: MasterKeys
  /** The port that the gateway listens on. */
  readonly port: number
  readonly findings: readonly Finding[]
}

/**
 * Prints to stdout that the gateway is ready. On a new installation it first creates the customer and the API key
 * that it prints.
 */
export async function announce({ config, owner, masterKeys, port, findings }: AnnounceInput): Promise<void> {
  const setup = createPool(owner, { max: 1, applicationName: 'switchyard first run' })
  try {
    const created = await ensureFirstRun({ pool: setup, config })
    const { offers } = await readHosterOffers(setup, {
      masterKeys,
      nowMs: Date.now(),
      allowPrivateHosters: config.hosters.allowPrivateUrls,
      // The catalog has already logged the hosters that cannot be offered.
      onProblem: () => {},
    })
    const hosters = [...Map.groupBy(offers, ({ endpoint }) => endpoint)].map(([{ name, baseUrl }, hosterOffers]) => ({
      name,
      baseUrl,
      models: hosterOffers.map(({ modelId }) => modelId),
    }))
    process.stdout.write(welcome({ config, port, created, findings, hosters }))
  } finally {
    await setup.end()
  }
}
