import { fixedKey } from '../src/base/domain/sealing-keys.ts'
import { startNode } from '../src/jobs/start-node.ts'
import { createJournals, type JournalDirectory } from '../src/money/ledger/journal/create-journals.ts'
import type { Journal } from '../src/money/ledger/journal/journal.ts'
import type { RecordedExtents } from '../src/money/ledger/journal/recover-segments.ts'
import { createLedger, type Ledger } from '../src/money/ledger/ledger.ts'
import { type Claims, createClaims } from '../src/request/chat/idempotency/claims.ts'
import { createRetryBudget, type RetryBudget } from '../src/request/dispatch/attempt-log.ts'
import { type BreakerOracle, createBreakerOracle } from './breaker-oracle.ts'
import type { SimDisk } from './disk.ts'
import type { Link } from './link.ts'
import type { Process } from './process.ts'
import type { World } from './world.ts'

/** A journal directory. Stands for the directories that src/money/ledger/journal/claim-directory.ts keeps in the file system. */
export interface Volume {
  readonly name: string
  readonly disk: SimDisk
  /** What fileIdentity returns for the lock: no other volume has had it, and it changes with a reboot. */
  identity: string
  /** The nodes that wrote here and are not forgotten yet, with the identity of the volume at that time. */
  nodes: readonly { readonly nodeId: string; readonly identity: string }[]
  /** The file `sizes`, with the identity of the volume at that time. */
  sizes: { readonly extents: RecordedExtents['extents']; readonly identity: string } | undefined
  claimedBy: Process | undefined
  /** Whether a fault changed bytes that were written. Nothing else makes a gateway report damage. */
  mayBeDamaged: boolean
}

/** The settings that src/start/config/config.ts would read. */
export interface GatewayConfig {
  readonly settlement: 'journal' | 'commit'
  readonly fsync: boolean
  readonly segmentBytes: number
  readonly maxBytes: number
  /** The size of each volume. */
  readonly diskBytes: number
}

/** One gateway process, wired as in src/start/compose/. */
export interface Gateway {
  readonly process: Process
  readonly ledger: Ledger
  readonly claims: Claims
  readonly breaker: BreakerOracle
  readonly retryBudget: RetryBudget
  readonly volume: Volume
  readonly journal: Journal
  /** Drains the gateway and ends its process, as SIGTERM does. */
  stop(): Promise<void>
}

export interface GatewayDeps {
  readonly world: World
  readonly process: Process
  readonly link: Link
  /** The volumes of the machine, in numerical order. */
  readonly volumes: readonly Volume[]
  readonly nodeShard: number
  readonly config: GatewayConfig
  readonly newId: (kind: 'node' | 'lease') => string
  readonly onEjected: () => void
}

/** Starts a gateway; resolves once it may take requests. Rejects when the database is down: the caller ends the process and restarts it. */
export async function startGateway(deps: GatewayDeps): Promise<Gateway> {
  const { process, link, config, nodeShard, newId } = deps
  const { store } = link
  const { scheduler } = process
  const own = deps.volumes.find(volume => volume.claimedBy === undefined)!
  claim(own)
  const left = deps.volumes.filter(
    volume => volume.claimedBy === undefined && (volume.disk.hasSegments || volume.nodes.length > 0),
  )
  left.forEach(claim)
  const claimed = [own, ...left]
  process.onDeath(() => {
    for (const volume of claimed) if (volume.claimedBy === process) volume.claimedBy = undefined
  })

  const { fsync, segmentBytes, maxBytes } = config
  const log = {
    ...silent,
    warn: (facts: object, message: string) => deps.world.note(process.name, message, JSON.stringify(facts)),
  }
  const journals = createJournals([directoryOf(own), ...left.map(directoryOf)], {
    ...{ scheduler, fsync, segmentBytes, maxBytes },
    log: { warn: log.warn, error: log.warn },
  })
  if (journals.damagedSegments > 0 && !claimed.some(({ mayBeDamaged }) => mayBeDamaged))
    deps.world.fail('reported_damage_is_real', `${process.name}: ${journals.damagedSegments} segments`)
  deps.world.note(process.name, 'recovers', journals.recovered.length, journals.deadNodes.length)
  const node = await startNode({
    store,
    scheduler,
    newId: () => newId('node'),
    onNewId: journals.addNode,
    nodeShard,
    log: silent,
  })
  const ledger = createLedger({
    store,
    node,
    nodeShard,
    scheduler,
    newId: () => newId('lease'),
    journal: config.settlement === 'journal' ? journals.own : null,
    log: silent,
  })
  node.listen({
    onFenced: ledger.fenced,
    onRecalled: ledger.recall,
    onBeat: (_heartbeat, isReconnected) => ledger.onBeat(isReconnected),
  })
  await ledger.replay(journals.recovered)
  await node.reclaimLeases(journals.deadNodes)
  await journals.settled()

  const claims = createClaims({
    store: link.claims,
    ledgerStore: store,
    nodeShard,
    node,
    scheduler,
    masterKeys: MASTER_KEYS,
    log: silent,
  })
  const random = deps.world.random.fork()
  return {
    process,
    ledger,
    claims,
    breaker: createBreakerOracle(deps.world, process, random.next, deps.onEjected),
    retryBudget: createRetryBudget({ clock: scheduler }),
    volume: own,
    journal: journals.own,
    async stop() {
      claims.stop()
      const unsettled = await ledger.drain(10_000)
      ledger.stop()
      await node.stop()
      const retired = unsettled === 0 && (await node.retire())
      await journals.close({ retired })
      process.kill()
    },
  }

  function claim(volume: Volume): void {
    volume.claimedBy = process
  }

  function directoryOf(volume: Volume): JournalDirectory {
    return {
      claimed: {
        path: volume.name,
        nodes: () => volume.nodes.map(({ nodeId, identity }) => ({ nodeId, isDead: identity === volume.identity })),
        writeNodeIds(nodeIds) {
          if (!process.enter('node file')) return
          if (volume.disk.roomBytes < NODE_FILE_BYTES) throw new Error(`${volume.name} is full`)
          volume.nodes = nodeIds.map(nodeId => ({ nodeId, identity: volume.identity }))
        },
        sizes: {
          read: () => volume.sizes && { ...volume.sizes, areExact: volume.sizes.identity === volume.identity },
          write(extents) {
            if (process.enter('sizes file')) volume.sizes = { extents: new Map(extents), identity: volume.identity }
          },
          close() {},
        },
        keepReserve() {},
        release() {
          if (process.enter('release')) volume.claimedBy = undefined
        },
      },
      disk: { ...volume.disk.mount(process), close() {} },
    }
  }
}

/** File systems give out whole blocks. */
const NODE_FILE_BYTES = 4_096

const MASTER_KEYS = fixedKey(Buffer.alloc(32, 7))
const silent = { info() {}, warn() {}, error() {} }
