import { pino } from 'pino'
import { type App, compose } from './compose.ts'
import type { Config } from './config.ts'
import { configuredOffers } from './config/configured-offers.ts'
import { type DatabaseHandle, openDatabase } from './db/embedded.ts'
import { migrate } from './db/migrate.ts'
import { createPool } from './db/pool.ts'
import { acquireServerLock } from './db/server-lock.ts'
import { type DemoUpstream, startDemoUpstream } from './demo/start-demo-upstream.ts'
import type { Offer } from './domain/offer.ts'
import { firstRun } from './cli/first-run.ts'
import { banner } from './cli/banner.ts'
import { detect } from './market/detect.ts'
import { loadMasterKey } from './market/master-key.ts'

/** Runs the gateway until SIGTERM or SIGINT. Throws an Error with a sentence for the operator when it cannot start. */
export async function main(config: Config): Promise<void> {
}
