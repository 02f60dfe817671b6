import type { RefundOrder } from '../src/money/ledger/accounts/refund-request.ts'
import type { LeaseVerdict, LedgerStore } from '../src/money/ledger/ledger-store.ts'
import { decodeSettlements, type Settlement } from '../src/money/ledger/settlement/settlement.ts'
import type { ClaimStore } from '../src/request/chat/idempotency/claim-store.ts'
import type { DatabaseServer } from './database-server.ts'
import type { RefundVerdict } from './model-database.ts'
import type { Process } from './process.ts'
import type { World } from './world.ts'

/** The network between one machine and the database. */
export interface LinkState {
  /** No message passes to the database, or back from it. */
  requestsCut: boolean
  answersCut: boolean
  /** Probabilities per message. */
  lossRate: number
  duplicateRate: number
  /** Probability of a delay of up to `delayMaxMs`. Statements on different connections can overtake each other. */
  delayRate: number
  delayMaxMs: number
}

export function createLinkState(): LinkState {
  return { requestsCut: false, answersCut: false, lossRate: 0, duplicateRate: 0, delayRate: 0, delayMaxMs: 0 }
}

/** Receives each statement at the moment when the database executes it. */
export interface LinkObserver {
  onStatement<K extends Operation>(
    operation: K,
    args: Parameters<Statements[K]>,
    result: unknown,
    sentAtMs: number,
    process: Process,
  ): void
}

interface Statements extends Omit<LedgerStore, 'settle'> {
  settle(nodeShard: number, settlements: readonly Settlement[]): ReturnType<LedgerStore['settle']>
  refund(order: RefundOrder): Promise<RefundVerdict>
  takeClaim: ClaimStore['take']
  findClaim: ClaimStore['find']
  takeOverClaim: ClaimStore['takeOver']
  finishClaim: ClaimStore['finish']
  releaseClaim: ClaimStore['release']
}

type Operation = keyof Statements

/** Everything that a process uses of the database. */
export interface Link {
  readonly store: LedgerStore
  readonly claims: ClaimStore
  refund(order: RefundOrder): Promise<RefundVerdict>
}

/** Statements that take something, a lease or a key, so that a copy executed later would leave it behind. */
const takingOperations: ReadonlySet<Operation> = new Set(['admit', 'takeClaim', 'takeOverClaim'])

/** A client drops its connection after waiting this long for an answer; see src/base/db/pool.ts. The statement may still run. */
const QUERY_TIMEOUT_MS = 6_000

/**
 * The connection of one process to the database. A statement may be lost, late, executed twice, or executed without an answer. The process
 * sees only the errors of a socket or of PostgreSQL.
 */
export function createLink(
  world: World,
  process: Process,
  link: LinkState,
  server: DatabaseServer,
  observer: LinkObserver,
): Link {
  const { random } = world
  const { model } = server
  const store: LedgerStore = {
    registerNode: nodeId => call('registerNode', [nodeId], () => model.registerNode(nodeId)),
    heartbeat: (nodeId, number) => call('heartbeat', [nodeId, number], () => model.heartbeat(nodeId, number)),
    retireNode: nodeId => call('retireNode', [nodeId], () => model.retireNode(nodeId)),
    async reclaim(options) {
      // The statements of reclaimDeadLeases.
      await call('reclaim', [options], () => model.declareNodesDead(options))
      let reclaimed = 0
      for (const customerId of await call('reclaim', [options], () => model.customersOfDeadNodes())) {
        reclaimed += await call('reclaim', [options], () => model.reclaimLeases(customerId, options.nodeShard))
      }
      await call('reclaim', [options], () => model.forgetDeadNodes())
      return reclaimed
    },
    admit(nodeId, requests, skipsLocked) {
      const sent = [...requests]
      return call('admit', [nodeId, sent], () => {
        const free = [...sent.keys()].filter(item => !isLocked(sent[item]!.customerId, skipsLocked))
        const locked = [...sent.keys()].filter(item => !free.includes(item))
        const verdicts: LeaseVerdict[] = model.admit(
          nodeId,
          free.map(item => sent[item]!),
        )
        return [
          ...verdicts.map(verdict => ({ ...verdict, item: free[verdict.item]! })),
          ...locked.map(item => ({ item, kind: 'locked' as const })),
        ]
      })
    },
    settle(nodeShard, settlements, skipsLocked) {
      const sent = decodeSettlements(settlements)
      return call('settle', [nodeShard, sent], () => {
        // Charges of bulk leases need no lock on the balance.
        const isFree = ({ leaseId, requestId, customerId }: Settlement) =>
          leaseId !== requestId || !isLocked(customerId, skipsLocked)
        const free = sent.filter(isFree)
        const effects = model.settle(nodeShard, free)
        for (const settlement of sent) if (!free.includes(settlement)) effects.set(settlement.requestId, 'locked')
        return effects
      })
    },
    handBack(returns, skipsLocked) {
      const sent = [...returns]
      return call('handBack', [sent], () => {
        const free = sent.filter(({ leaseId }) => !isLocked(customerOf(leaseId), skipsLocked))
        model.handBack(free)
        return new Set(sent.filter(lease => !free.includes(lease)).map(({ leaseId }) => leaseId))
      })
    },
    noteUse(uses) {
      const sent = [...uses]
      return call('noteUse', [sent], () => {
        model.noteUse(sent)
        return new Set()
      })
    },
    windowsOf: (nodeId, customerIds) =>
      call('windowsOf', [nodeId, customerIds], () => model.windowsOf(nodeId, customerIds)),
    areSettled: requests => call('areSettled', [requests], () => model.areSettled(requests)),
    leasesOf: nodeId => call('leasesOf', [nodeId], () => model.leasesOf(nodeId)),
    release(leaseIds) {
      const sent = [...leaseIds]
      return call('release', [sent], () => {
        const free = sent.filter(leaseId => !isLocked(customerOf(leaseId), true))
        const released = model.release(free)
        const locked = sent.filter(leaseId => !free.includes(leaseId))
        return new Map([
          ...[...released].map(leaseId => [leaseId, 'released'] as const),
          ...locked.map(leaseId => [leaseId, 'locked'] as const),
        ])
      })
    },
  }
  return {
    store,
    claims: {
      take: (claim, nodeId) => call('takeClaim', [claim, nodeId], () => model.takeClaim(claim, nodeId)),
      find: claim => call('findClaim', [claim], () => model.findClaim(claim)),
      takeOver: (claim, earlier, nodeId) =>
        call('takeOverClaim', [claim, earlier, nodeId], () => model.takeOverClaim(claim, earlier, nodeId)),
      finish: (claim, ending) => call('finishClaim', [claim, ending], () => model.finishClaim(claim, ending)),
      release: claim => call('releaseClaim', [claim], () => model.releaseClaim(claim)),
    },
    refund: order => call('refund', [order], () => model.refund(order)),
  }

  /** Whether another session has locked the balance. Throws a lock timeout when the statement would wait for it. */
  function isLocked(customerId: string | undefined, skipsLocked = false): boolean {
    const isLocked = customerId !== undefined && server.lockedCustomers.has(customerId)
    if (isLocked && !skipsLocked) throw sqlError('55P03')
    return isLocked
  }

  function customerOf(leaseId: string): string | undefined {
    return model.tables.leases.get(leaseId)?.customerId
  }

  function call<K extends Operation, T>(operation: K, args: Parameters<Statements[K]>, work: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      if (!process.enter(operation)) return
      const sentAtMs = world.nowMs
      const deadlineMs = sentAtMs + QUERY_TIMEOUT_MS
      let isOpen = true
      const end = (delayMs: number, what: string, finish: () => void) => {
        const isTooLate = world.nowMs + delayMs > deadlineMs
        process.deliver(isTooLate ? Math.max(deadlineMs - world.nowMs, 0) : delayMs, () => {
          if (!isOpen) return
          isOpen = false
          world.note(process.name, operation, isTooLate ? 'timed out' : what)
          if (isTooLate) reject(new Error('Query read timeout'))
          else finish()
        })
      }
      // A broken connection is noticed at once, or only at the query timeout.
      const breakOff = () =>
        end(random.chance(0.7) ? random.skewed(0.5, 300) : QUERY_TIMEOUT_MS, 'broken', () => reject(brokenConnection()))

      if (link.requestsCut || random.chance(link.lossRate)) {
        world.note(process.name, operation, 'is lost')
        breakOff()
        return
      }
      const isDuplicated = random.chance(link.duplicateRate)
      arrive(passageMs())
      if (isDuplicated) arrive(random.skewed(1, 20_000), true)

      function arrive(afterMs: number, isCopy = false): void {
        world.at(world.nowMs + afterMs, () => {
          const { generation } = server
          server.execute(execute, () => !isCopy && breakOff())

          function execute(): void {
            const failure = sqlFailure(operation)
            if (failure !== undefined) {
              if (!isCopy) end(random.next(), 'rolled back', () => reject(sqlError(failure)))
              return
            }
            const { result, error } = outcomeOf(work)
            if (error === undefined) {
              world.note(process.name, operation, isCopy ? 'copy done' : 'done', summaryOf(operation, args))
              observer.onStatement(operation, args, result, sentAtMs, process)
            } else world.note(process.name, operation, 'refused', String(error))
            const answer = () => (error === undefined ? resolve(result as T) : reject(error))
            if (isCopy) return
            // A network never duplicates a statement: a duplicate means that the client sent it again after losing the answer. For statements
            // that take a lease or a key, the client must know this, since nothing else would release what the late copy takes.
            const isAnswerLost =
              link.answersCut || random.chance(link.lossRate) || (isDuplicated && takingOperations.has(operation))
            if (isAnswerLost) breakOff()
            else {
              const delayMs = passageMs()
              // An answer that is on its way when the database goes down may still arrive.
              const hasArrived = () => generation === server.generation || random.chance(0.5)
              end(delayMs, 'answered', () => (hasArrived() ? answer() : reject(brokenConnection())))
            }
          }
        })
      }
    })
  }

  /** The SQLSTATE with which PostgreSQL rolls a statement back; usually undefined. */
  function sqlFailure(operation: Operation): string | undefined {
    if (operation === 'settle' && server.isSettlingNothing) return '57014'
    // On a full disk, updates that fit into their page succeed.
    if (server.exhausted !== undefined && random.chance(0.7)) return server.exhausted
    // A lock timeout, or this statement was the victim of a deadlock.
    return random.chance(link.lossRate / 2) ? random.pick(['55P03', '40P01', '57014']) : undefined
  }

  function passageMs(): number {
    return random.chance(link.delayRate) ? random.skewed(1, link.delayMaxMs) : random.skewed(0.1, 1)
  }

  function brokenConnection(): Error {
    return random.pick([
      () => Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' }),
      () => Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' }),
      () => new Error('Connection terminated unexpectedly'),
      () => sqlError('57P01'),
    ])()
  }
}

/** The arguments of a statement as the trace shows them. */
function summaryOf(operation: Operation, args: readonly unknown[]): string {
  const [first, second] = args as [unknown, readonly Record<string, unknown>[]]
  const short = (id: unknown) =>
    id === undefined ? '' : `${String(id)[0]}${Number.parseInt(String(id).slice(-12), 16)}`
  switch (operation) {
    case 'admit':
      return second
        .map(request => (request.slots === undefined ? short(request.requestId) : `${short(request.leaseId)} bulk`))
        .join(' ')
    case 'settle':
      return second
        .map(({ requestId, leaseId, costNanos }) => `${short(requestId)}/${short(leaseId)}:${costNanos}`)
        .join(' ')
    case 'handBack':
      return (first as readonly Record<string, unknown>[])
        .map(({ leaseId, keepNanos }) => `${short(leaseId)} keep ${keepNanos}`)
        .join(' ')
    case 'release':
      return (first as readonly string[]).map(short).join(' ')
    case 'reclaim':
    case 'noteUse':
    case 'windowsOf':
      return ''
    case 'refund':
    case 'takeClaim':
    case 'findClaim':
    case 'takeOverClaim':
    case 'finishClaim':
    case 'releaseClaim':
      return short((first as Record<string, unknown>).requestId)
    default:
      return short(first)
  }
}

function outcomeOf<T>(work: () => T): { result?: T; error?: Error } {
  try {
    return { result: work() }
  } catch (error) {
    return { error: error as Error }
  }
}

function sqlError(code: string): Error {
  return Object.assign(new Error(`SQLSTATE ${code}`), { code })
}
