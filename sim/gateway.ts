import { type Claims, createClaims } from '../src/chat/idempotency/claims.ts'
import { startNode } from '../src/jobs/start-node.ts'
import { type Journal, openJournal } from '../src/ledger/journal/journal.ts'
import { createLedger, type Ledger } from '../src/ledger/ledger.ts'
import { type BreakerOracle, createBreakerOracle } from './breaker-oracle.ts'
import type { SimDisk } from './disk.ts'
import type { Link } from './link.ts'
import type { Process } from './process.ts'
import type { World } from './world.ts'

/** A journal directory. Stands for the directories that src/ledger/journal/claim-directory.ts keeps in the file system. */
export interface Volume {
  readonly name: string
  readonly disk: SimDisk
  /** The ids of nodes that wrote here and are not forgotten yet. */
  nodeIds: string[]
  claimedBy: Process | undefined
}

/** The settings that src/config/config.ts would read. */
export interface GatewayConfig {
  readonly settlement: 'journal' | 'commit'
  readonly fsync: boolean
  readonly segmentBytes: number
  readonly maxBytes: number
}

/** One gateway process, wired as in src/start/compose/. */
export interface Gateway {
  readonly process: Process
  readonly ledger: Ledger
  readonly claims: Claims
  readonly breaker: BreakerOracle
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
    volume => volume.claimedBy === undefined && (!volume.disk.isEmpty || volume.nodeIds.length > 0),
  )
  left.forEach(claim)
  const claimed = [own, ...left]
  process.onDeath(() => {
    for (const volume of claimed) if (volume.claimedBy === process) volume.claimedBy = undefined
  })

  const opened = claimed.map(volume => {
    const { fsync, segmentBytes, maxBytes } = config
    return {
      volume,
      deadNodes: volume.nodeIds,
      ...openJournal({ disk: volume.disk.mount(process), scheduler, fsync, segmentBytes, maxBytes }),
    }
  })
  for (const { volume, recovered, tornBytes, damages } of opened) {
    deps.world.note(process.name, 'opens', volume.name, recovered.length, tornBytes, damages.length)
  }
  const { journal } = opened[0]!
  const ownNodes: string[] = []
  const node = await startNode({
    store,
    scheduler,
    newId: () => newId('node'),
    onNewId(nodeId) {
      if (!process.enter('node file')) return
      ownNodes.push(nodeId)
      own.nodeIds = [...own.nodeIds, nodeId]
    },
    nodeShard,
    log: silent,
  })
  const ledger = createLedger({
    store,
    node,
    nodeShard,
    scheduler,
    newId: () => newId('lease'),
    journal: config.settlement === 'journal' ? journal : null,
    log: silent,
  })
  node.listen({ onFenced: ledger.fenced, onRecalled: ledger.recall })
  await ledger.replay(
    opened.flatMap(from =>
      from.recovered.map(({ payload, entry }) => ({ payload, forget: () => from.journal.forget(entry) })),
    ),
  )
  await node.reclaimLeases(opened.flatMap(({ deadNodes }) => deadNodes))
  for (const { volume, deadNodes } of opened) forgetNodes(volume, deadNodes)
  for (const { volume, journal } of opened.slice(1)) {
    await journal.close()
    release(volume)
  }

  const claims = createClaims({
    store: link.claims,
    ledgerStore: store,
    nodeShard,
    node,
    scheduler,
    masterKey: MASTER_KEY,
  })
  const random = deps.world.random.fork()
  return {
    process,
    ledger,
    claims,
    breaker: createBreakerOracle(deps.world, process, random.next, deps.onEjected),
    volume: own,
    journal,
    async stop() {
      claims.stop()
      const unsettled = await ledger.drain(10_000)
      ledger.stop()
      await node.stop()
      const retired = unsettled === 0 && (await node.retire())
      if (retired) forgetNodes(own, ownNodes)
      await journal.close()
      release(own)
      process.kill()
    },
  }

  function claim(volume: Volume): void {
    volume.claimedBy = process
  }

  function release(volume: Volume): void {
    if (process.enter('release')) volume.claimedBy = undefined
  }

  function forgetNodes(volume: Volume, nodeIds: readonly string[]): void {
    if (process.enter('node file')) volume.nodeIds = volume.nodeIds.filter(nodeId => !nodeIds.includes(nodeId))
  }
}

const MASTER_KEY = Buffer.alloc(32, 7)
const silent = { info() {}, warn() {}, error() {} }
