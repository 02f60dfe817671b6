import type { FastifyBaseLogger } from 'fastify'
import type { Connection } from '../../base/db/open-database.ts'
import type { ConfigReload } from '../../base/domain/config-reload.ts'
import type { Offer } from '../../base/domain/offer.ts'
import { type Clock, type Scheduler, systemClock, systemScheduler } from '../../base/runtime/scheduler.ts'
import type { MasterKeys } from '../../base/secrets/master-keys.ts'
import { type CreditEvidence, createCreditEvidence } from '../../money/ledger/credit-evidence.ts'
import type { Config } from '../config/config.ts'
import { createLiveConfig, type LiveConfig } from '../config/live-config.ts'

export interface ComposeInput {
  readonly config: Config
  /** Reads the configuration again, as SIGHUP does: see `createConfigReload`. */
  readonly reloadConfig?: () => Promise<ConfigReload>
  readonly connection: Connection
  /** Connects as the desk role: see `DatabaseHandle`. */
  readonly desk: Connection
  readonly masterKeys: MasterKeys
  /** Local and cloud offers: configured, detected and the demo. */
  readonly offers: readonly Offer[]
  readonly log: FastifyBaseLogger
  /** The version of this package, sent to upstreams. */
  readonly version: string
  /**
   * The server lock proves that no other node is alive, so the leases of earlier nodes can be returned
   * immediately.
   */
  readonly isOnlyNode: boolean
  readonly clock?: Clock
  /** Uniform in [0, 1). */
  readonly random?: () => number
  readonly timeouts?: Partial<NodeTimeouts>
}

/** Intervals that tests shorten. */
export interface NodeTimeouts {
  /**
   * How long the end of an answer waits until its charge is in the journal, or committed when there is no
   * journal, ms. After that the answer fails and is free.
   */
  readonly commitWaitMs: number
  /** How long a client may read nothing before its connection is closed, ms. */
  readonly slowReaderMs: number
  /** How long a closing server still answers on open connections after a drain, ms. */
  readonly closingGraceMs: number
  /** How long a long prompt or answer may take to be measured, ms. After that a cheap bound is used. */
  readonly measureTextMs: number
  /** How often the ledger is searched for new alerts, ms. */
  readonly alertIntervalMs: number
  /** How often the node reports what it sees of its servers, ms. */
  readonly serverReportIntervalMs: number
  /** How long a WebSocket of `/v1/responses` lives, ms. */
  readonly responseSocketMs: number
  /** How often agents of hosters are pinged, ms. */
  readonly agentPingMs: number
  /** How often agents of hosters get their earnings and the list of nodes, ms. */
  readonly agentReportMs: number
  /** How often the node shares what it learns of its servers, ms. */
  readonly learnedIntervalMs: number
  /** How often the overview is read for open pages of operators, ms. */
  readonly overviewIntervalMs: number
  /** The longest pause between two requests of an audit, ms. */
  readonly auditPauseMsMax: number
  /** How long spans wait for others before they are exported together, ms. */
  readonly spanDelayMs: number
  /** How long a stopping node waits for its last export of telemetry, ms. */
  readonly telemetryCloseMs: number
}

/** Passed to every part of the node. A part registers its shutdown with `started`. */
export interface ComposeContext extends ComposeInput {
  /** Replaces the settings of `config` that can change while the node runs. */
  readonly useSettings: LiveConfig['use']
  readonly clock: Clock
  readonly random: () => number
  readonly scheduler: Scheduler
  readonly timeouts: Partial<NodeTimeouts>
  readonly evidence: CreditEvidence
  /** Disposed in reverse order: the part that starts last stops first. */
  readonly started: Pick<AsyncDisposableStack, 'defer'>
}

/** Fills in the defaults of `input`. */
export function createComposeContext(input: ComposeInput, started: ComposeContext['started']): ComposeContext {
  const { clock = systemClock, random = Math.random, timeouts = {} } = input
  const evidence = createCreditEvidence(input.masterKeys.derived('evidence of credit'))
  const { config, use } = createLiveConfig(input.config)
  return {
    ...input,
    config,
    useSettings: use,
    clock,
    random,
    timeouts,
    evidence,
    scheduler: { ...systemScheduler, ...clock },
    started,
  }
}

const BYTES_MAX = 1_048_576

/** Returns the limit of bodies that take no memory from the node's budget: those of keys and alerts are small. */
export function smallBodyLimit(bodyLimitBytes: number): number {
  return Math.min(bodyLimitBytes, BYTES_MAX)
}
