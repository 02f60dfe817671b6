import type { FailpointName } from '../../src/runtime/failpoint.ts'
import { type ChaosCustomer, chargeOf, outputTokensOf, type Sent } from './customer.ts'
import { eventually } from './eventually.ts'
import type { GatewayProcess } from './gateway-process.ts'
import { runLoad, seededRandom } from './load.ts'
import type { Scenario } from './scenario.ts'
import { sendChat } from './send-chat.ts'
import { verdictOn } from './verdict.ts'
import type { ChaosWorld } from './world.ts'

/**
 * How a process comes to the place: by one `request` or `stream` after the other, by many at once (`storm`), by living on with some
 * `traffic`, by being left alone after some (`idle`), because another node wants money back (`recall`), by being asked to stop
 * (`drain`), or by its `start` after a process that died with streams running and charges in its journal.
 */
type Way = 'request' | 'stream' | 'storm' | 'traffic' | 'idle' | 'recall' | 'drain' | 'start'

interface Crash {
  readonly way: Way
  /** Dies when it passes for this time; 1 unless given. */
  readonly hit?: number
  /** What the request that was at this place costs its customer. */
  readonly victim?: 'nothing' | 'its price'
}

/** A customer with money to spare has a bulk lease by then. */
const REQUEST = 13
/** In the middle of some stream: they have eight chunks, of which more than one may travel together. */
const CHUNKS = 60

/** Every failpoint, how it is reached, and what becomes of the request that was there. */
export const crashes: Readonly<Record<FailpointName, Crash>> = {
  'chat-authenticated': { way: 'request', hit: REQUEST, victim: 'nothing' },
  'admission-begun': { way: 'request', hit: REQUEST, victim: 'nothing' },
  'admission-answered': { way: 'request', hit: REQUEST, victim: 'nothing' },
  'dispatch-before-send': { way: 'request', hit: REQUEST, victim: 'nothing' },
  'upstream-headers': { way: 'request', hit: REQUEST, victim: 'nothing' },
  'dispatch-answered': { way: 'request', hit: REQUEST, victim: 'nothing' },
  'relay-mid-stream': { way: 'stream', hit: CHUNKS, victim: 'nothing' },
  'settlement-before-build': { way: 'request', hit: REQUEST, victim: 'nothing' },
  'settlement-built': { way: 'stream', hit: REQUEST, victim: 'nothing' },
  'journal-before-write': { way: 'stream', hit: REQUEST, victim: 'nothing' },
  'journal-written': { way: 'stream', hit: REQUEST, victim: 'its price' },
  'settlement-acknowledged': { way: 'stream', hit: REQUEST, victim: 'its price' },
  'answer-sent': { way: 'request', hit: REQUEST, victim: 'its price' },
  'admissions-before-send': { way: 'storm', hit: 3 },
  'admissions-committed': { way: 'storm', hit: 3 },
  'bulk-lease-answered': { way: 'traffic' },
  'bulk-lease-recalled': { way: 'recall' },
  'hand-back-before-send': { way: 'idle' },
  'hand-back-committed': { way: 'idle' },
  'settlements-before-send': { way: 'storm', hit: 4 },
  'settlements-committed': { way: 'storm', hit: 4 },
  'journal-rotating': { way: 'storm', hit: 2 },
  'segment-before-removal': { way: 'storm' },
  'segment-removed': { way: 'storm' },
  'node-noted': { way: 'start' },
  'node-registered': { way: 'start' },
  'replay-begun': { way: 'start' },
  'replay-settled': { way: 'start' },
  'replay-buried': { way: 'start' },
  'heartbeat-before-send': { way: 'traffic', hit: 2 },
  'heartbeat-sent': { way: 'traffic', hit: 2 },
  'reap-before-send': { way: 'start' },
  'reap-buried': { way: 'start' },
  'reap-customer-reclaimed': { way: 'start' },
  'drain-idle': { way: 'drain' },
  'drain-flushed': { way: 'drain' },
  'drain-before-retire': { way: 'drain' },
  'drain-retired': { way: 'drain' },
}

const USD = 1_000_000_000n
/** In case it never dies. */
const REQUESTS_MAX = 3_000
const DIES_WITHIN_MS = 30_000

/** Both crashes of a failpoint that a single request comes to, with its money from a bulk lease and from one of its own; else the one. */
export function crashesAt(name: FailpointName): Scenario[] {
  return crashes[name].victim === undefined ? [crashAt(name)] : [crashAt(name, 'bulk'), crashAt(name, 'strict')]
}

/**
 * A gateway kills itself at this place with SIGKILL while another one serves the same customers, then starts again on the same data
 * directory. Where a request comes to the place, it is alone on its gateway, so that it is known which one.
 */
export function crashAt(name: FailpointName, lease?: 'bulk' | 'strict'): Scenario {
  const crash = crashes[name]
  return {
    name: lease === undefined ? `kill -9 at ${name}` : `kill -9 at ${name}, ${lease} lease`,
    async run(world) {
      const survivor = await world.running('survivor')
      // Without notice, so that the next start finds what it leaves; but not where a start with something to replay comes to the place.
      const isPassedInReplay = crash.way === 'storm' || crash.way === 'start'
      await ended(world, isPassedInReplay ? 'SIGTERM' : 'SIGKILL')
      // The second has too little for a bulk lease, the third just enough for one: two cents more than a `dear` request holds.
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
        const reaching = {
          world,
          failpoints: `${name}:hit=${crash.hit ?? 1}:kill`,
          survivor,
          chosen,
          middling: middling!,
        }
        victim = await ways[crash.way](reaching)
        const again = await sendChat(await world.start('victim'), rich!)
        if (again.ending !== 'whole') problems.push(`after its restart it answers ${again.ending} ${again.errorCode}`)
      } finally {
        over.abort()
        await bystanders
      }
      const settled = () => verdictOn(world, customers, {}, async () => judge(world, crash, victim))
      return { customers, problems, note: crash.way, settled }
    },
  }
}

interface Reaching {
  readonly world: ChaosWorld
  readonly failpoints: string
  readonly survivor: GatewayProcess
  readonly chosen: readonly ChaosCustomer[]
  readonly middling: ChaosCustomer
}

interface Victim {
  readonly customer: ChaosCustomer
  readonly sent: Sent
}

/** Each resolves when the gateway has killed itself, with the request that was at the place where it is known. */
const ways: Readonly<Record<Way, (reaching: Reaching) => Promise<Victim | undefined>>> = {
  request: reaching => oneByOne(reaching, false),
  stream: reaching => oneByOne(reaching, true),
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
    await trafficUntil(sent => sent > 8, node, chosen)
    await died(node)
    return undefined
  },
  async recall({ world, failpoints, survivor, middling }) {
    const node = await world.start('victim', { failpoints })
    await trafficUntil(() => hasBulkLease(world, middling), node, [middling])
    // Asks for a dollar of which a part is in the bulk lease of the other, however many nodes have a share.
    await Promise.all([
      trafficUntil(() => node.exit !== undefined, node, [middling]),
      sendChat(survivor, middling, { model: 'dear' }),
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
    // Answered from the journal; the process dies when it wants to commit.
    await sendChat(before, chosen[0]!)
    await died(before)
    await Promise.all(running)
    await died(await world.launch('victim', { failpoints }))
    return undefined
  },
}

async function oneByOne({ world, failpoints, chosen }: Reaching, stream: boolean): Promise<Victim> {
  const node = await world.start('victim', { failpoints })
  const customer = chosen[0]!
  for (let request = 1; ; request++) {
    const sent = await sendChat(node, customer, { stream, words: 6, gapMs: 2 })
    // The one that was answered whole at the last place of all is found by counting.
    const isLast = failpoints === `answer-sent:hit=${request}:kill` || request === REQUESTS_MAX
    if (sent.ending === 'whole' && !isLast) continue
    await died(node)
    return { customer, sent }
  }
}

/** One request after the other, streams and others, in turn for each customer. */
async function trafficUntil(
  isEnough: (sent: number) => boolean | Promise<boolean>,
  node: GatewayProcess,
  customers: readonly ChaosCustomer[],
): Promise<void> {
  for (let sent = 0; sent < REQUESTS_MAX && !(await isEnough(sent)); sent++) {
    await sendChat(node, customers[sent % customers.length]!, { stream: sent % 2 === 0, words: 6, gapMs: 4 })
  }
}

async function hasBulkLease({ pool }: ChaosWorld, { customerId }: ChaosCustomer): Promise<boolean> {
  const { rowCount } = await pool.query('SELECT FROM lease WHERE customer_id = $1 AND slots IS NOT NULL', [customerId])
  return rowCount !== 0
}

/** A stream for each customer, from when the model server has begun with all of them. */
async function runningStreams(
  { modelServer }: ChaosWorld,
  node: GatewayProcess,
  customers: readonly ChaosCustomer[],
  words: number,
): Promise<Promise<Sent>[]> {
  const running = customers.map(customer => sendChat(node, customer, { stream: true, words, gapMs: 10 }))
  const tags = customers.map(({ sent }) => sent.findLast(each => each.node === node.name)!.tag)
  await eventually('its streams run', () =>
    customers.every(({ customerId }, i) => modelServer.tagsOf(customerId).has(tags[i]!)),
  )
  return running
}

/** Ends the victim of the crash before this one. */
async function ended(world: ChaosWorld, signal: NodeJS.Signals): Promise<void> {
  const before = world.nodes.find(node => node.name === 'victim')
  before?.signal(signal)
  await before?.exited
}

async function died(node: GatewayProcess): Promise<void> {
  await eventually(`${node.name} kills itself`, () => node.exit !== undefined, { timeoutMs: DIES_WITHIN_MS })
  if (node.exit?.signal !== 'SIGKILL') {
    throw new Error(`${node.name} ended with ${node.exit?.code} instead of being killed:\n${node.log()}`)
  }
}

async function judge({ pool }: ChaosWorld, crash: Crash, victim: Victim | undefined): Promise<string[]> {
  if (crash.victim === undefined) return []
  if (victim === undefined) return ['no request was at the place']
  const { customer, sent } = victim
  // Without an answer there is no request id, but the number of tokens is this request's alone.
  const { rows } = await pool.query<{ cost: bigint }>(
    'SELECT cost_nanos AS cost FROM usage_event WHERE customer_id = $1 AND output_tokens = $2',
    [customer.customerId, outputTokensOf(sent)],
  )
  const cost = rows[0]?.cost ?? 0n
  const expected = crash.victim === 'nothing' ? 0n : chargeOf(sent)
  return cost === expected ? [] : [`the request that was there cost ${cost} instead of ${expected}`]
}
