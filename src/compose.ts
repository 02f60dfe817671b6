import { randomUUID } from 'node:crypto'
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import { createAuthenticator } from './auth/authenticate.ts'
import { complete } from './chat/complete.ts'
import { type Config, limitsOfTier } from './config.ts'
import { watchControlVersion } from './db/control-version.ts'
import type { Connection } from './db/embedded.ts'
import { createPool } from './db/pool.ts'
import { createUpstreamClient } from './dispatch/upstream-client.ts'
import { type Clock, systemClock } from './domain/clock.ts'
import type { Offer } from './domain/offer.ts'
import { chatCompletions } from './http/endpoints/chat-completions.ts'
import { createGuard } from './http/guard.ts'
import { createInFlight, type InFlight } from './http/in-flight.ts'
import { createMetrics } from './http/metrics.ts'
import { createServer } from './http/server.ts'
import { startJobs } from './jobs/start-jobs.ts'
import { createLedger, type Ledger } from './ledger/ledger.ts'
import { startNode } from './ledger/node.ts'
import { createCatalogSource } from './market/catalog.ts'
import { createHealth } from './market/health.ts'
import { createEarlyLeaves } from './quota/early-leaves.ts'
import { createReportLimiter } from './quota/report-limiter.ts'
import { createWindowView } from './quota/window-view.ts'

export interface App {
  readonly server: FastifyInstance
  readonly inFlight: InFlight
  readonly ledger: Ledger
  /** Refuses new requests, lets running ones finish for `drainMs`, flushes settlements, gives leases back. Then all is closed. */
  close(options?: { drainMs?: number }): Promise<void>
}

export interface ComposeInput {
  readonly config: Config
  readonly connection: Connection
  readonly masterKey: Buffer
  /** Local and cloud offers: configured, detected and the demo. */
  readonly offers: readonly Offer[]
  readonly log: FastifyBaseLogger
  readonly clock?: Clock
  readonly random?: () => number
}
