import { createRandom } from '../../sim/random.ts'
import type { Offer } from '../../src/base/domain/offer.ts'
import type { OwnCanary } from '../../src/base/domain/own-canary.ts'
import { fixedKey } from '../../src/base/domain/sealing-keys.ts'
import type { AuditDeps } from '../../src/market/trust/audits/audit-deps.ts'
import { createAuditor } from '../../src/market/trust/audits/audit-hoster.ts'
import { createRelatedCustomers } from '../../src/market/trust/audits/related-customers.ts'
import { createConversationNames, createSeenConversations } from '../../src/market/trust/audits/seen-conversations.ts'
import {
  createSharedRequests,
  type Manners,
  type SharedRequest,
} from '../../src/market/trust/audits/shared-requests.ts'
import { createRelatedHosters } from '../../src/market/trust/related-hosters.ts'
import type { TestDatabase } from '../harness/database.ts'
import { offerOf } from '../supply/random-market.ts'
import { createHoster, NOW_MS } from './trust-world.ts'

/** A request of an audit, as the conductor gets it. */
export interface AskedRequest {
  readonly server: Offer
  readonly body: Record<string, unknown> & { messages: { role: string; content: string }[] }
  readonly pseudonymsOf: string | null
  readonly visit: number
}

/** What the servers answer. Null: nothing. */
export type Answering = (request: AskedRequest) => string | null

const plain = { serviceTier: 'balanced', privacyMode: false, trustedOnly: false, maxLatencyMs: null } as const

const nameConversation = createConversationNames(fixedKey(Buffer.alloc(32)))

/** A request of a customer that shares it, of the model `m`. */
export function sharedRequest(given: Partial<SharedRequest> & Pick<SharedRequest, 'customerId'>): SharedRequest {
  const messages = [{ role: 'user', content: 'What does a tide table show?' }]
  const constraints = { ...plain, fallbackModels: [], allowHosters: null, denyHosters: new Set<string>() }
  const body = given.body ?? { messages }
  const conversation = nameConversation(given.customerId, { forward: body })!
  return { conversation, body, modelId: 'm', hosterId: null, constraints, ...given }
}

/** Says another text each time. */
export function talker(seed = 1): () => string {
  const random = createRandom(seed)
  const word = () => Array.from({ length: random.between(2, 9) }, () => 'etaoinshrdlu'[random.between(0, 11)]).join('')
  return () => Array.from({ length: random.between(3, 40) }, word).join(' ')
}

/** A hoster of the model `m`, with other servers of it, whose requests are recorded instead of sent. */
export async function auditWorld(
  database: TestDatabase,
  given: {
    /** Other servers. Default: a local one. */
    readonly servers?: readonly Offer[]
    readonly answer: Answering
    readonly shared?: readonly SharedRequest[]
    readonly manners?: readonly Manners[]
    readonly ownCanaries?: readonly OwnCanary[]
    readonly corpus?: readonly string[]
    readonly references?: readonly string[] | null
    /** The name of a server that fails. */
    readonly away?: string
    readonly seed?: number
    /** What a request costs; above 10 it is not affordable. Default: nothing. */
    readonly cost?: (body: AskedRequest['body']) => bigint
    readonly canPay?: (customerId: string) => boolean
  },
) {
  const { hosterId, endpointId } = await createHoster(database)
  const hosted = offerOf({ kind: 'hoster', hosterId, name: endpointId })
  const { servers = [offerOf()], answer, manners = [], ownCanaries = [], corpus = [], references = null } = given
  const random = createRandom(given.seed ?? 3)
  const requests: AskedRequest[] = []
  const pauses: number[] = []
  let [visits, nowMs] = [0, NOW_MS]
  const clock = { epochMs: () => nowMs, monotonicMs: () => nowMs }
  const shared = createSharedRequests(clock)
  for (const request of given.shared ?? []) shared.add(request)
  const talk = talker(7)
  const seen = createSeenConversations({
    pool: database.pool,
    scheduler: { ...clock, after: () => () => {} },
    log: { warn() {} },
  })
  const deps: AuditDeps = {
    pool: database.pool,
    clock,
    random: random.next,
    offers: () => [hosted, ...servers],
    references,
    isAway: ({ endpoint }) => given.away === endpoint.name,
    ownCanaries,
    corpus,
    drawWords: count => Array.from({ length: count }, () => talk().split(' ')[0]!),
    manners: { draw: () => manners[Math.floor(random.next() * manners.length)] },
    shared,
    seen,
    shares: { isAffordable: nanos => nanos <= 10n, whoCanPay: async () => given.canPay ?? (() => true) },
    estimateNanos: (_, body) => given.cost?.(body as AskedRequest['body']) ?? 0n,
    relatedCustomers: createRelatedCustomers(database.pool, clock),
    relatedHosters: createRelatedHosters(database.pool),
    beginVisit(pseudonymsOf) {
      const visit = visits++
      return async (server, body) => {
        const request = { server, body: structuredClone(body) as AskedRequest['body'], pseudonymsOf, visit }
        requests.push(request)
        const text = answer(request)
        return text === null ? null : { text, topTokens: [] }
      }
    },
  }
  const audit = createAuditor(deps)
  return {
    hosterId,
    shared,
    seen,
    requests,
    pauses,
    /** The requests that the hoster got. */
    sent: () => requests.filter(({ server }) => server === hosted),
    /** The requests that other servers got. */
    asked: () => requests.filter(({ server }) => server !== hosted),
    advance(ms: number) {
      nowMs += ms
    },
    async audit(times = 1) {
      for (let n = 0; n < times; n++) {
        await audit(endpointId, async ms => {
          pauses.push(ms)
        })
      }
    },
    async compared() {
      const { rows } = await database.pool.query<{
        source: string
        customer_id: string | null
        kind: string
        value: number
      }>('SELECT source, customer_id, kind, value FROM compared_answer WHERE hoster_id = $1 ORDER BY answer_id', [
        hosterId,
      ])
      return rows
    },
    async audits() {
      const { rows } = await database.pool.query<{ kind: string; passed: boolean | null; statistic: number }>(
        'SELECT kind, passed, statistic FROM hoster_audit WHERE hoster_id = $1 ORDER BY audit_id',
        [hosterId],
      )
      return rows
    },
  }
}
