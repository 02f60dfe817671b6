import type { FailpointName } from '../../src/failpoint.ts'
import { type ChaosCustomer, chargeOf, outputTokensOf, type Sent } from './customer.ts'
import { eventually } from './eventually.ts'
import type { GatewayProcess } from './gateway-process.ts'
import { runLoad, seededRandom } from './load.ts'
import type { Faulted, Scenario } from './scenario.ts'
import { sendChat } from './send-chat.ts'
import { verdictOn } from './verdict.ts'
import type { ChaosWorld } from './world.ts'

/** How a process comes to the place: by a request, by a stream, by starting, by living on, by being asked to stop. */
type Way = 'request' | 'stream' | 'start' | 'life' | 'drain'

interface Crash {
  readonly way: Way
  /** Dies when it passes for this time. */
  readonly hit: number
  /** What the request that was at this place costs its customer. */
  readonly victim?: 'nothing' | 'its price'
}

/** Every failpoint, how it is reached, and what becomes of the request that was there. */
export const crashes: Readonly<Record<FailpointName, Crash>> = {
  'chat-authenticated': { way: 'request', hit: 3, victim: 'nothing' },
  'admission-before-send': { way: 'request', hit: 3, victim: 'nothing' },
  'admission-answered': { way: 'request', hit: 3, victim: 'nothing' },
  'dispatch-before-send': { way: 'request', hit: 3, victim: 'nothing' },
  'upstream-headers': { way: 'request', hit: 3, victim: 'nothing' },
  'dispatch-answered': { way: 'request', hit: 3, victim: 'nothing' },
  'relay-mid-stream': { way: 'stream', hit: 15, victim: 'nothing' },
  'settlement-before-build': { way: 'request', hit: 3, victim: 'nothing' },
  'settlement-built': { way: 'stream', hit: 3, victim: 'nothing' },
  'settlement-acknowledged': { way: 'stream', hit: 3, victim: 'its price' },
  'answer-sent': { way: 'request', hit: 3, victim: 'its price' },
  'node-registered': { way: 'start', hit: 1 },
  'reap-before-send': { way: 'start', hit: 1 },
  'heartbeat-before-send': { way: 'life', hit: 2 },
  'heartbeat-sent': { way: 'life', hit: 2 },
  'drain-idle': { way: 'drain', hit: 1 },
  'drain-flushed': { way: 'drain', hit: 1 },
  'drain-before-retire': { way: 'drain', hit: 1 },
}

const USD = 1_000_000_000n
/** In case it never dies. */
const REQUESTS_MAX = 40

/**
 * A gateway kills itself at this place with SIGKILL while another one serves the same customers, then starts again on the same data
 * directory. It is reached by one request at a time, so that the one that was there is known.
 */
export function crashAt(name: FailpointName): Scenario {
  const crash = crashes[name]
  return {
    name: `kill -9 at ${name}`,
    async run(world) {
      const survivor = await world.running('survivor')
      const customers = [await world.openCustomer(200n * USD), await world.openCustomer(5n * USD)]
      const problems: string[] = []
      const bystanders = new AbortController()
      const background = runLoad({
        nodes: () => [survivor],
        customers,
        workers: 2,
        requestsMax: 400,
        random: seededRandom(name.length),
        signal: bystanders.signal,
      })
      let victim: Victim | undefined
      try {
        victim = await reach(world, name, crash, customers)
        const again = await world.start('victim')
        const sent = await sendChat(again, customers[0]!)
        if (sent.ending !== 'whole') problems.push(`after its restart it answers ${sent.ending} ${sent.errorCode}`)
        again.signal('SIGKILL')
        await again.exited
      } finally {
        bystanders.abort()
        await background
      }
      const settled = () => verdictOn(world, customers, {}, async () => judge(world, crash, victim))
      return { customers, problems, note: crash.way, settled } satisfies Faulted
    },
  }
}

interface Victim {
  readonly customer: ChaosCustomer
  readonly sent: Sent
}

/** Resolves when the gateway has killed itself, with the request that was at the place where there was one. */
async function reach(
  world: ChaosWorld,
  name: FailpointName,
  { way, hit }: Crash,
  customers: readonly ChaosCustomer[],
): Promise<Victim | undefined> {
  const failpoints = `${name}:hit=${hit}:kill`
  if (way === 'start') {
    await died(await world.launch('victim', { failpoints }))
    return undefined
  }
  const node = await world.start('victim', { failpoints })
  if (way === 'drain') {
    const running = customers.map(customer => sendChat(node, customer, { stream: true, words: 20, gapMs: 10 }))
    const tags = customers.map(({ sent }) => sent.at(-1)!.tag)
    const isRunning = ({ customerId }: ChaosCustomer, i: number) => world.modelServer.tagsOf(customerId).has(tags[i]!)
    await eventually('its streams run', () => customers.every(isRunning))
    node.signal('SIGTERM')
    await Promise.all(running)
    await died(node)
    return undefined
  }
  for (let i = 0; i < REQUESTS_MAX && node.exit === undefined; i++) {
    const customer = customers[i % customers.length]!
    const stream = way === 'stream' || (way === 'life' && i % 2 === 0)
    const sent = await sendChat(node, customer, { stream, words: 6, gapMs: way === 'life' ? 50 : 2 })
    if (sent.ending !== 'whole' || (way !== 'life' && i + 1 === hit)) {
      await died(node)
      return way === 'life' ? undefined : { customer, sent }
    }
  }
  await died(node)
  return undefined
}

async function died(node: GatewayProcess): Promise<void> {
  await eventually(`${node.name} kills itself`, () => node.exit !== undefined, { timeoutMs: 20_000 })
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
