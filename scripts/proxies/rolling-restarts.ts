import { setTimeout as delay } from 'node:timers/promises'
import { percentile } from '../../bench/percentile.ts'
import { eventually } from '../../test/chaos/eventually.ts'
import { Client, type Question } from './client.ts'
import type { RunningProxy } from './proxy.ts'
import { AGENT_MODEL, LOCAL_MODEL, type Node, SLOW, type TwoGateways } from './two-gateways.ts'

const REQUESTS_PER_RESTART_MIN = 500
/** 25 requests a second. */
const EVERY_MS = 40

/** Cycled through by the requests. Of the streams, every 21st runs for nine seconds. */
const kinds = [
  { name: 'whole', model: LOCAL_MODEL, stream: false },
  { name: 'streamed', model: LOCAL_MODEL, stream: true },
  { name: 'whole, by the agent', model: AGENT_MODEL, stream: false },
  { name: 'streamed, by the agent', model: AGENT_MODEL, stream: true },
] as const
/** No multiple of the number of kinds. */
const SLOW_EVERY = 21
const FAILURES_SHOWN = 20
/** The samples check `/readyz` every second. */
const READY_NOTICED_MS = 2_000

export interface RestartFigures {
  readonly requests: number
  /** By kind of request. */
  readonly byKind: ReadonlyMap<string, number>
  readonly failed: number
  /** Milliseconds to the end of a whole answer. */
  readonly wholeP99Ms: number
  /** Milliseconds to the first piece of a stream. */
  readonly firstPieceP99Ms: number
}

/**
 * Sends requests at a constant rate while both gateways are restarted one after the other, as an operator does: SIGTERM, then a new
 * process when the old one has ended, then the other gateway two seconds after the new one is ready. No request is sent again.
 *
 * @param restarts how often both are restarted
 * @param report called with the first failures when they happen, and with the count after each restart
 */
export async function measureRollingRestarts(
  { origin, hasGateway }: Pick<RunningProxy, 'origin' | 'hasGateway'>,
  { first, second, keys }: TwoGateways,
  restarts: number,
  report: (text: string) => void,
): Promise<RestartFigures> {
  const clients = keys.map(key => new Client(origin, key))
  const byKind = new Map<string, number>()
  const failures: string[] = []
  const wholeMs: number[] = []
  const firstPieceMs: number[] = []
  const running = new Set<Promise<void>>()
  let sent = 0

  const send = async (client: Client, number: number) => {
    const kind = kinds[number % kinds.length]!
    byKind.set(kind.name, (byKind.get(kind.name) ?? 0) + 1)
    const startMs = performance.now()
    const prompt = number % SLOW_EVERY === SLOW_EVERY - 1 ? SLOW : 'Hello!'
    try {
      const waitedMs = await ask(client, { ...kind, prompt }, startMs)
      if (kind.stream) firstPieceMs.push(waitedMs)
      else wholeMs.push(waitedMs)
    } catch (error) {
      const failure = `${kind.name}, request ${number}: ${describe(error)}`
      if (failures.push(failure) <= FAILURES_SHOWN) report(failure)
    }
  }
  let isRestarting = true
  const restarted = restartAll([first, second], restarts, hasGateway, done =>
    report(`${done} of ${restarts} rolling restarts, ${sent} requests, ${failures.length} failed`),
  ).finally(() => {
    isRestarting = false
  })
  const startMs = performance.now()
  while (isRestarting || sent < restarts * REQUESTS_PER_RESTART_MIN) {
    const request = send(clients[sent % clients.length]!, sent)
    running.add(request)
    void request.finally(() => running.delete(request))
    sent++
    await delay(Math.max(0, startMs + sent * EVERY_MS - performance.now()))
  }
  await restarted
  await Promise.all(running)
  await Promise.all(clients.map(client => client.close()))
  const p99 = (values: number[]) =>
    percentile(
      values.toSorted((a, b) => a - b),
      0.99,
    )
  return {
    requests: sent,
    byKind,
    failed: failures.length,
    wholeP99Ms: p99(wholeMs),
    firstPieceP99Ms: p99(firstPieceMs),
  }
}

async function restartAll(
  nodes: readonly Node[],
  times: number,
  hasGateway: RunningProxy['hasGateway'],
  onRestart: (done: number) => void,
): Promise<void> {
  for (let done = 1; done <= times; done++) {
    for (const node of nodes) {
      node.gateway.signal('SIGTERM')
      const { code } = await node.gateway.exited
      if (code !== 0) throw new Error(`${node.name} ended with ${code}\n${node.gateway.log()}`)
      await node.start()
      await delay(READY_NOTICED_MS)
      if (hasGateway) await eventually(`${node.name} gets requests`, () => hasGateway(node.port))
    }
    onRestart(done)
  }
}

/** Returns after how many milliseconds a whole answer or the first piece of a stream was there. Rejects unless the answer is complete. */
async function ask(client: Client, question: Question, startMs: number): Promise<number> {
  const response = await client.ask(question)
  if (!question.stream) {
    const { choices } = (await response.json()) as { choices: { message: { content: string } }[] }
    if (choices[0]!.message.content === '') throw new Error('an empty answer')
    return performance.now() - startMs
  }
  let firstMs: number | undefined
  let received = ''
  for await (const text of response.body!.pipeThrough(new TextDecoderStream())) {
    firstMs ??= performance.now() - startMs
    received += text
  }
  if (!received.trimEnd().endsWith('data: [DONE]')) throw new Error(`a stream ended with ${received.slice(-300)}`)
  return firstMs!
}

/** undici wraps what went wrong with a connection. */
function describe(error: unknown): string {
  const { message, cause } = error as Error
  return cause instanceof Error ? `${message}: ${cause.message}` : message
}
