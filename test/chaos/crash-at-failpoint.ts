import type { FailpointName } from '../../src/base/runtime/failpoint.ts'
import { seededRandom } from '../../src/wire/demo-model/seeded-random.ts'
import {
  type ChaosCustomer,
  chargeOf,
  mayStream,
  type Path,
  paths,
  plainChat,
  type Sent,
  tokensOf,
  USD,
} from './customer.ts'
import { eventually } from './eventually.ts'
import type { GatewayProcess } from './gateway-process.ts'
import { runLoad } from './load.ts'
import type { Scenario } from './scenario.ts'
import { sendRequest } from './send-request.ts'
import { verdictOn } from './verdict.ts'
import type { ChaosWorld } from './world.ts'

/**
 * How a process reaches a failpoint: single requests (`request`) or streams (`stream`) in sequence, many concurrent requests (`storm`), some
 * `traffic` over time, inactivity after traffic (`idle`), another node that needs money back (`recall`), a graceful stop (`drain`), or a
 * `start` after a process that died with running streams and charges in its journal.
 */
type Trigger = 'request' | 'stream' | 'storm' | 'traffic' | 'idle' | 'recall' | 'drain' | 'start'

/**
 * Those of payments and payouts need a provider, those of moves another cell: the tests in test/payments, test/payouts and
 * test/cells break the process there.
 */
export type CrashedFailpoint = Exclude<FailpointName, `payment-${string}` | `payout-${string}` | `cell-move-${string}`>

interface Crash {
  readonly trigger: Trigger
  /** The process dies when it passes the failpoint for this time. Default 1. */
  readonly hit?: number
  /** The cost of the request that reached the failpoint. */
  readonly victim?: 'nothing' | 'its price'
}

/** By then, a customer with enough credit has a bulk lease. */
const REQUEST = 13
/** In the middle of a stream. A stream has eight chunks, and several may be sent together. */
const CHUNKS = 60

/** Every failpoint, how a process reaches it, and the cost of its request. */
export const crashes: Readonly<Record<CrashedFailpoint, Crash>> = {
  'chat-authenticated': { trigger: 'request', hit: REQUEST, victim: 'nothing' },
  'admission-begun': { trigger: 'request', hit: REQUEST, victim: 'nothing' },
  'admission-answered': { trigger: 'request', hit: REQUEST, victim: 'nothing' },
  'dispatch-before-send': { trigger: 'request', hit: REQUEST, victim: 'nothing' },
  'upstream-headers': { trigger: 'request', hit: REQUEST, victim: 'nothing' },
  'dispatch-answered': { trigger: 'request', hit: REQUEST, victim: 'nothing' },
  'relay-mid-stream': { trigger: 'stream', hit: CHUNKS, victim: 'nothing' },
  'settlement-before-build': { trigger: 'request', hit: REQUEST, victim: 'nothing' },
  'settlement-built': { trigger: 'stream', hit: REQUEST, victim: 'nothing' },
  'journal-before-write': { trigger: 'stream', hit: REQUEST, victim: 'nothing' },
  'journal-written': { trigger: 'stream', hit: REQUEST, victim: 'its price' },
  'settlement-acknowledged': { trigger: 'stream', hit: REQUEST, victim: 'its price' },
  'answer-sent': { trigger: 'request', hit: REQUEST, victim: 'its price' },
  'admissions-before-send': { trigger: 'storm', hit: 3 },
  'admissions-committed': { trigger: 'storm', hit: 3 },
  'bulk-lease-answered': { trigger: 'traffic' },
  'bulk-lease-recalled': { trigger: 'recall' },
  'hand-back-before-send': { trigger: 'idle' },
  'hand-back-committed': { trigger: 'idle' },
  'settlements-before-send': { trigger: 'storm', hit: 4 },
  'settlements-committed': { trigger: 'storm', hit: 4 },
  'journal-rotating': { trigger: 'storm', hit: 2 },
  'segment-before-removal': { trigger: 'storm' },
  'segment-removed': { trigger: 'storm' },
  'node-noted': { trigger: 'start' },
  'node-registered': { trigger: 'start' },
  'replay-begun': { trigger: 'start' },
  'replay-settled': { trigger: 'start' },
  'replay-buried': { trigger: 'start' },
  'node-recorded': { trigger: 'start' },
  'heartbeat-before-send': { trigger: 'traffic', hit: 2 },
  'heartbeat-sent': { trigger: 'traffic', hit: 2 },
  'reap-before-send': { trigger: 'start' },
  'reap-buried': { trigger: 'start' },
  'reap-customer-reclaimed': { trigger: 'start' },
  'drain-idle': { trigger: 'drain' },
  'drain-flushed': { trigger: 'drain' },
  'drain-before-retire': { trigger: 'drain' },
  'drain-retired': { trigger: 'drain' },
}

/** Stops the load when the process never dies. */
const REQUESTS_MAX = 3_000
/** An idle bulk lease is returned at the end of its minute, which `openWindowsAhead` lets begin later. */
const DIES_WITHIN_MS = 150_000

/** How many of the other endpoints and dialects each failpoint of a request gets. */
const OTHER_PATHS = 3

/**
 * The crashes of a failpoint. Where a single request reaches it: with a bulk lease, with a strict lease, and with some other endpoints and
 * dialects. Otherwise one.
 */
export function crashesAt(name: CrashedFailpoint): Scenario[] {
  const { victim } = crashes[name]
  if (victim === undefined) return [crashAt(name)]
  return [
    crashAt(name, { lease: 'bulk' }),
    crashAt(name, { lease: 'strict' }),
    ...otherPaths(name).map(path => crashAt(name, { lease: 'bulk', path })),
  ]
}

/** Takes the paths in turns, so that all failpoints together see each of them. */
function otherPaths(name: CrashedFailpoint): Path[] {
  const others = paths.filter(path => path !== plainChat && (name !== 'relay-mid-stream' || mayStream(path)))
  const first = Object.keys(crashes).indexOf(name) * OTHER_PATHS
  return Array.from({ length: OTHER_PATHS }, (_, index) => others[(first + index) % others.length]!)
}

/** The request that reaches a failpoint. */
interface CrashedRequest {
  readonly lease: 'bulk' | 'strict'
  /** Default: `chaos` by chat. */
  readonly path?: Path
}

/**
 * A gateway kills itself with SIGKILL at the failpoint while another gateway serves the same customers, then restarts on the same data
 * directory. If a request reaches the failpoint, it is the only one on its gateway, so that it can be identified.
 */
export function crashAt(name: CrashedFailpoint, { lease, path }: Partial<CrashedRequest> = {}): Scenario {
  const crash = crashes[name]
  return {
    name: [
      `kill -9 at ${name}`,
      ...(lease === undefined ? [] : [`${lease} lease`]),
      ...(path === undefined ? [] : [`${path.client} for ${path.model}`]),
    ].join(', '),
    async run(world) {
      const survivor = await world.running('survivor')
      // SIGKILL leaves work for the next start. SIGTERM avoids a replay where a replay would pass the failpoint.
      const isPassedInReplay = crash.trigger === 'storm' || crash.trigger === 'start'
      await endVictim(world, isPassedInReplay ? 'SIGTERM' : 'SIGKILL')
      // The second customer has too little for a bulk lease. The third has just enough: two cents more than an `expensive` request holds.
      const [rich, poor, middling] = await Promise.all(
        [200n * USD, (9n * USD) / 10n, (102n * USD) / 100n].map(credit => world.openCustomer(credit)),
      )
      const customers = [rich!, poor!, middling!]
      const chosen = lease === 'strict' ? [poor!] : lease === 'bulk' ? [rich!] : [rich!, poor!]
      const problems: string[] = []
      const over = new AbortController()
      const bystanders = runLoad({
        nodes: () => [survivor],
        customers: [rich!, poor!],
        workers: 2,
        requestsMax: 400,
        random: seededRandom(name.length),
        signal: over.signal,
      })
      let victim: Victim | undefined
      try {
        const options = {
          world,
          failpoints: `${name}:hit=${crash.hit ?? 1}:kill`,
          survivor,
          chosen,
          middling: middling!,
          path: path ?? plainChat,
        }
        victim = await triggers[crash.trigger](options)
        const again = await sendRequest(await world.start('victim'), rich!)
        if (again.ending !== 'complete')
          problems.push(`after its restart a request ended ${again.ending} ${again.errorCode}`)
      } finally {
        over.abort()
        await bystanders
      }
      const settled = () => verdictOn(world, customers, {}, async () => judge(world, crash, victim))
      return { customers, problems, note: crash.trigger, settled }
    },
  }
}

interface TriggerOptions {
  readonly world: ChaosWorld
  readonly failpoints: string
  readonly survivor: GatewayProcess
  readonly chosen: readonly ChaosCustomer[]
  readonly middling: ChaosCustomer
  readonly path: Path
}

interface Victim {
  readonly customer: ChaosCustomer
  readonly sent: Sent
}

/** Each function resolves when the gateway has killed itself, with the request that reached the failpoint if it is known. */
const triggers: Readonly<Record<Trigger, (options: TriggerOptions) => Promise<Victim | undefined>>> = {
  request: options => sendInSequence(options, false),
  stream: options => sendInSequence(options, true),
  async storm({ world, failpoints, chosen }) {
    const node = await world.start('victim', { failpoints })
    const over = new AbortController()
    void node.exited.then(() => over.abort())
    await runLoad({
      nodes: () => [node],
      customers: chosen,
      workers: 8,
      requestsMax: REQUESTS_MAX,
      random: seededRandom(8),
      words: 4,
      gapMs: 1,
      signal: over.signal,
    })
    await died(node)
    return undefined
  },
  async traffic({ world, failpoints, chosen }) {
    const node = await world.start('victim', { failpoints })
    await trafficUntil(() => node.exit !== undefined, node, chosen)
    await died(node)
    return undefined
  },
  async idle({ world, failpoints, chosen }) {
    const node = await world.start('victim', { failpoints })
    const haveBulkLease = async () => {
      const have = await Promise.all(chosen.map(customer => hasBulkLease(world, customer)))
      return have.includes(true)
    }
    await trafficUntil(sent => sent > 8 && haveBulkLease(), node, chosen)
    await died(node)
    return undefined
  },
  async recall({ world, failpoints, survivor, middling }) {
    const node = await world.start('victim', { failpoints })
    await trafficUntil(() => hasBulkLease(world, middling), node, [middling])
    // An expensive request holds a dollar, and part of that dollar is in the bulk lease of the victim.
    await Promise.all([
      trafficUntil(() => node.exit !== undefined, node, [middling]),
      sendRequest(survivor, middling, { path: { client: 'chat', model: 'expensive' } }),
    ])
    await died(node)
    return undefined
  },
  async drain({ world, failpoints, chosen }) {
    const node = await world.start('victim', { failpoints })
    await trafficUntil(sent => sent > 8, node, chosen)
    const running = await runningStreams(world, node, chosen, 20)
    node.signal('SIGTERM')
    await Promise.all(running)
    await died(node)
    return undefined
  },
  async start({ world, failpoints, chosen }) {
    const before = await world.start('victim', { failpoints: 'settlements-before-send:hit=1:kill' })
    const running = await runningStreams(world, before, chosen, 400)
    // The journal accepts the charge; the process dies before the commit.
    await sendRequest(before, chosen[0]!)
    await died(before)
    await Promise.all(running)
    await died(await world.launch('victim', { failpoints }))
    return undefined
  },
}

async function sendInSequence({ world, failpoints, chosen, path }: TriggerOptions, stream: boolean): Promise<Victim> {
  const node = await world.start('victim', { failpoints })
  const customer = chosen[0]!
  for (let request = 1; ; request++) {
    const sent = await sendRequest(node, customer, { path, stream: stream && mayStream(path), words: 6, gapMs: 2 })
    // At `answer-sent` the answer is complete, so the request is identified by its number.
    const isLast = failpoints === `answer-sent:hit=${request}:kill` || request === REQUESTS_MAX
    if (sent.ending === 'complete' && !isLast) continue
    await died(node)
    return { customer, sent }
  }
}

/** Sends requests in sequence, alternating streams and non-streamed answers, and the customers. */
async function trafficUntil(
  isEnough: (sent: number) => boolean | Promise<boolean>,
  node: GatewayProcess,
  customers: readonly ChaosCustomer[],
): Promise<void> {
  for (let sent = 0; sent < REQUESTS_MAX && !(await isEnough(sent)); sent++) {
    await sendRequest(node, customers[sent % customers.length]!, { stream: sent % 2 === 0, words: 6, gapMs: 4 })
  }
}

/** Whether the gateway that started last has a bulk lease of the customer. The survivor may have one too. */
async function hasBulkLease({ pool }: ChaosWorld, { customerId }: ChaosCustomer): Promise<boolean> {
  const { rowCount } = await pool.query(
    `SELECT FROM lease WHERE customer_id = $1 AND slots IS NOT NULL
        AND node_id = (SELECT node_id FROM node ORDER BY started_at DESC LIMIT 1)`,
    [customerId],
  )
  return rowCount !== 0
}

/** Starts a stream for each customer, and waits until all have reached the model server. */
async function runningStreams(
  { modelServer }: ChaosWorld,
  node: GatewayProcess,
  customers: readonly ChaosCustomer[],
  words: number,
): Promise<Promise<Sent>[]> {
  const running = customers.map(customer => sendRequest(node, customer, { stream: true, words, gapMs: 10 }))
  const tags = customers.map(({ sent }) => sent.findLast(each => each.node === node.name)!.tag)
  await eventually('the streams reach the model server', () =>
    customers.every(({ customerId }, i) => modelServer.tagsOf(customerId).has(tags[i]!)),
  )
  return running
}

/** Ends the victim of the previous crash. */
async function endVictim(world: ChaosWorld, signal: NodeJS.Signals): Promise<void> {
  const before = world.nodes.find(node => node.name === 'victim')
  before?.signal(signal)
  await before?.exited
}

async function died(node: GatewayProcess): Promise<void> {
  await eventually(`${node.name} reaches the failpoint`, () => node.exit !== undefined, { timeoutMs: DIES_WITHIN_MS })
  if (node.exit?.signal !== 'SIGKILL') {
    throw new Error(`${node.name} exited with ${node.exit?.code} instead of being killed:\n${node.log()}`)
  }
}

async function judge({ pool }: ChaosWorld, crash: Crash, victim: Victim | undefined): Promise<string[]> {
  if (crash.victim === undefined) return []
  if (victim === undefined) return ['no request reached the failpoint']
  const { customer, sent } = victim
  // Without an answer there is no request id, but the number of tokens identifies the request.
  const { input, output } = tokensOf(sent)
  const { rows } = await pool.query<{ cost: bigint }>(
    'SELECT cost_nanos AS cost FROM usage_event WHERE customer_id = $1 AND model_id = $2 AND input_tokens = $3 AND output_tokens = $4',
    [customer.customerId, sent.model, input, output],
  )
  const cost = rows[0]?.cost ?? 0n
  const expected = crash.victim === 'nothing' ? 0n : chargeOf(sent)
  return cost === expected ? [] : [`the request at the failpoint cost ${cost} instead of ${expected}`]
}
