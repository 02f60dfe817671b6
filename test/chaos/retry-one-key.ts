import { setTimeout as delay } from 'node:timers/promises'
import type { FailpointName } from '../../src/base/runtime/failpoint.ts'
import { clientWires } from '../harness/client-wires.ts'
import { type ChaosCustomer, chargeOf, maxTokensOf, mayStream, type Path, tokensOf, USD } from './customer.ts'
import { eventually } from './eventually.ts'
import type { GatewayProcess } from './gateway-process.ts'
import { textOf } from './model-server.ts'
import type { Scenario } from './scenario.ts'
import { verdictOn } from './verdict.ts'
import type { ChaosWorld } from './world.ts'

const CLIENTS = 50
/** The keys of a node are free 15 s after its last heartbeat. */
const GIVE_UP_MS = 60_000
const RETRY_MS = 250

/** Failpoints at which the first node is killed. */
export const retryFailpoints: readonly FailpointName[] = [
  'chat-authenticated',
  'admission-answered',
  'dispatch-answered',
  'relay-mid-stream',
  'settlement-built',
  'journal-written',
  'settlement-acknowledged',
  'settlements-committed',
  'answer-sent',
]

/**
 * Fifty clients send the same request with the same Idempotency-Key to three nodes, until each receives the answer or `already_completed`. The
 * first node dies at `failpoint` and restarts during the retries. There must be exactly one charge.
 */
export function retryOneKey(failpoint: FailpointName, path: Path): Scenario {
  return {
    name: `50 retries of one key, killed at ${failpoint}, ${path.client} for ${path.model}`,
    async run(world) {
      const customer = await world.openCustomer(5n * USD)
      const others = await Promise.all(['retry-b', 'retry-c'].map(name => world.running(name)))
      const earlier = world.nodes.find(({ name }) => name === 'retry-a')
      earlier?.signal('SIGTERM')
      await earlier?.exited
      const doomed = await world.start('retry-a', { failpoints: `${failpoint}:hit=1:kill` })
      // The doomed node receives the first request, so that it claims the key.
      const first = send(doomed, customer, path)
      await Promise.race([first, doomed.exited])
      const revived = doomed.exited.then(() => world.running('retry-a'))
      const endings = await Promise.all(
        Array.from({ length: CLIENTS }, (_, n) =>
          retry(n % 3 === 0 ? doomed : others[n % 2]!, others[n % 2]!, customer, path),
        ),
      )
      await revived
      await eventually('one request is charged', async () => (await chargesOf(world, customer)).length > 0)
      const charges = await chargesOf(world, customer)
      const answers = new Set(endings.flatMap(({ answerId }) => (answerId === null ? [] : [answerId])))
      const problems = [
        ...(charges.length === 1 && charges[0] === chargeOf({ ...path, tag: 1 }) ? [] : [`charged ${charges}`]),
        ...(answers.size > 1 ? [`${answers.size} different answers`] : []),
        ...endings.flatMap(({ problem }) => (problem === null ? [] : [problem])),
      ]
      const completed = endings.filter(({ answerId }) => answerId === null).length
      return {
        customers: [],
        problems,
        note: `${CLIENTS - completed} answered, ${completed} got already_completed`,
        settled: async () => ({ ...(await verdictOn(world, [])), requests: CLIENTS + 1 }),
      }
    },
  }
}

interface Ending {
  /** Id of the completion; null for `already_completed`. */
  readonly answerId: string | null
  readonly problem: string | null
}

/** Retries at `node`, or at `other` after a broken connection, until the outcome is final. */
async function retry(
  node: GatewayProcess,
  other: GatewayProcess,
  customer: ChaosCustomer,
  path: Path,
): Promise<Ending> {
  const deadlineMs = performance.now() + GIVE_UP_MS
  for (let to = node; performance.now() < deadlineMs; await delay(RETRY_MS)) {
    const got = await send(to, customer, path)
    if (got === 'cut') to = other
    else if (got !== 'again') return got
  }
  return { answerId: null, problem: `a client got no final answer within ${GIVE_UP_MS / 1000} s` }
}

async function send(
  node: GatewayProcess,
  { key, customerId }: ChaosCustomer,
  path: Path,
): Promise<Ending | 'again' | 'cut'> {
  const wire = clientWires[path.client]
  const text = textOf({ tag: 1, tokens: tokensOf({ ...path, tag: 1 }), customerId, words: 5, gapMs: 0 })
  const stream = mayStream(path)
  const request = wire.request({ model: path.model, key, text, maxTokens: maxTokensOf(path.model), stream })
  try {
    const response = await fetch(`${node.url}${request.path}`, {
      method: 'POST',
      headers: { ...request.headers, 'content-type': 'application/json', 'idempotency-key': 'the-same' },
      body: JSON.stringify(request.body),
    })
    const received = await response.text()
    if (response.status === 200) {
      const isComplete = stream ? wire.readStream(received).isComplete : wire.isAnswer(JSON.parse(received))
      return isComplete ? { answerId: response.headers.get('x-request-id'), problem: null } : 'again'
    }
    const code = wire.errorCode(JSON.parse(received))
    if (code === 'already_completed') return { answerId: null, problem: null }
    if (code === 'idempotency_key_in_use' || response.status === 503) return 'again'
    return { answerId: null, problem: `a client got ${response.status} ${received}` }
  } catch {
    return 'cut'
  }
}

async function chargesOf({ pool }: ChaosWorld, { customerId }: ChaosCustomer): Promise<bigint[]> {
  const { rows } = await pool.query<{ cost_nanos: bigint }>(
    'SELECT cost_nanos FROM usage_event WHERE customer_id = $1 AND cost_nanos > 0',
    [customerId],
  )
  return rows.map(({ cost_nanos: costNanos }) => costNanos)
}
