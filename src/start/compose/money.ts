import { randomInt, randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { failpoint } from '../../base/runtime/failpoint.ts'
import { detectCopiedData } from '../../jobs/detect-copied-data.ts'
import { type RunningNode, startNode } from '../../jobs/start-node.ts'
import type { Journals } from '../../money/ledger/journal/create-journals.ts'
import type { Journal } from '../../money/ledger/journal/journal.ts'
import { openJournals } from '../../money/ledger/journal/open-journals.ts'
import { createLedger, type Ledger } from '../../money/ledger/ledger.ts'
import type { LedgerStore } from '../../money/ledger/ledger-store.ts'
import { createPostgresStore } from '../../money/ledger/postgres-store.ts'
import type { ComposeContext } from './compose-context.ts'
import type { Database } from './database.ts'

/** The ledger and the node that holds its leases. */
export interface Money {
  readonly store: LedgerStore
  readonly node: RunningNode
  /** The shard of usage_hour and usage_day that this node writes. */
  readonly nodeShard: number
  readonly ledger: Ledger
  /** The journal of this node; null with `settlement: commit`. */
  readonly journal: Pick<Journal, 'bytes' | 'entries'> | null
  /** See Journals.damagedSegments. */
  readonly damagedSegments: () => number
}

/**
 * Opens the journals, registers the node, settles the charges that earlier processes left in their journals, and
 * ends the leases of dead nodes.
 */
export async function startMoney(context: ComposeContext, database: Database): Promise<Money> {
  const { config, log, scheduler, timeouts } = context
  const store = createPostgresStore({ money: database.money, heartbeat: database.heartbeat })
  const journals = await openJournals({ root: join(config.dataDir, 'journal'), scheduler, log, ...config.journal })
  const journal = config.settlement === 'journal' ? journals.own : null
  const nodeShard = randomInt(32_768)
  const node = await startNode({ store, scheduler, newId: randomUUID, onNewId: journals.addNode, nodeShard, log })
  const ledger = createLedger({
    store,
    node,
    nodeShard,
    scheduler,
    newId: randomUUID,
    journal,
    ...(timeouts.commitWaitMs !== undefined && { commitWaitMs: timeouts.commitWaitMs }),
    log,
  })
  context.started.defer(() => stopMoney(context, { ledger, node, journals }))
  node.listen({
    onFenced: ledger.fenced,
    onRecalled: ledger.recall,
    onBeat: (_heartbeat, isReconnected) => ledger.onBeat(isReconnected),
  })
  if (!context.isOnlyNode && journals.doubtfulNodes.length > 0)
    node.listen(detectCopiedData(journals.doubtfulNodes, log))
  await recover(context, { ledger, node, journals })
  return { store, node, nodeShard, ledger, journal, damagedSegments: () => journals.damagedSegments }
}

type Parts = Pick<Money, 'ledger' | 'node'> & { readonly journals: Journals }

/**
 * Replays the journals before it ends the leases of dead nodes, so that the replayed charges still find their
 * leases.
 */
async function recover({ isOnlyNode, log }: ComposeContext, { ledger, node, journals }: Parts): Promise<void> {
  const replayed = await ledger.replay(journals.recovered)
  // How many of them were still open is unknown: a record stays in its file for a while after its charge was
  // committed.
  if (replayed > 0)
    log.info({ replayed }, 'replayed the charges in the journal of an earlier process; none is charged twice')
  failpoint('replay-settled')
  await node.reclaimLeases(isOnlyNode ? 'all' : journals.deadNodes)
  failpoint('replay-buried')
  await journals.settled()
}

async function stopMoney({ config, log }: ComposeContext, { ledger, node, journals }: Parts): Promise<void> {
  const unsettled = await ledger.drain(10_000)
  failpoint('drain-flushed')
  ledger.stop()
  await node.stop()
  failpoint('drain-before-retire')
  // The next start settles the charges that remain in the journal. Until then their leases must stay, so the
  // node is not retired.
  const retired = unsettled === 0 && (await node.retire())
  if (unsettled > 0)
    log.error({ unsettled, settlement: config.settlement }, 'charges could not be committed before shutdown')
  failpoint('drain-retired')
  await journals.close({ retired })
}
