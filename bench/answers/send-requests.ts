import { seededRandom } from '../../src/wire/demo-model/seeded-random.ts'
import { customerCount, type Found, judgeAnswer } from './answer-text.ts'

/** Requests of two customers to hosters that share one doubtful server. */
export interface RequestPlan {
  /** `http://127.0.0.1:PORT` of the gateway. */
  readonly origin: string
  /** The key of each customer. */
  readonly keys: readonly string[]
  /** The model of each hoster. */
  readonly models: readonly string[]
  readonly requests: number
  readonly concurrency: number
  readonly seed: number
}

export interface RequestTally {
  /** Counts what customers received: an answer, an error code, `left`, or `broken` for a lost connection. */
  readonly counts: ReadonlyMap<Received, number>
  /** The first answers that are foreign or mixed. */
  readonly wrong: readonly string[]
}
export type Received = Found | `error ${string}` | 'left' | 'broken'

/** This many hosters get requests at the same time, so that each keeps connections. */
const HOSTERS_AT_ONCE = 20
const STREAM_SHARE = 0.4
/** The part of requests whose client leaves after up to 50 ms. */
const LEAVE_SHARE = 0.03
const WRONG_SHOWN = 5

/** Sends the requests and compares each answer with its request. */
export async function sendRequests(plan: RequestPlan): Promise<RequestTally> {
  const { models, requests, concurrency, seed } = plan
  const random = seededRandom(seed)
  const counts = new Map<Received, number>()
  const wrong: string[] = []
  const requestsPerHoster = requests / models.length
  let sent = 0

  async function sendNext(): Promise<void> {
    const request = sent++
    const customer = Math.floor(random() * customerCount)
    const group = Math.floor(request / requestsPerHoster / HOSTERS_AT_ONCE) * HOSTERS_AT_ONCE
    const model = models[Math.min(models.length - 1, group + Math.floor(random() * HOSTERS_AT_ONCE))]!
    const stream = random() < STREAM_SHARE
    const leaveAfterMs = random() < LEAVE_SHARE ? Math.floor(random() * 50) : null
    const body = { model, stream, messages: [{ role: 'user', content: `${customer} ${request}` }] }
    const { received, raw } = await send(plan, customer, body, leaveAfterMs)
    const text = [...raw.matchAll(/"content":"([^"]*)"/g)].map(([, content]) => content).join('')
    const found = judgeAnswer(customer, request, text, raw)
    const isWrong = found === 'foreign' || found === 'mixed'
    const result: Received = isWrong ? found : (received ?? found)
    counts.set(result, (counts.get(result) ?? 0) + 1)
    if (isWrong && wrong.length < WRONG_SHOWN)
      wrong.push(`request ${request} of customer ${customer} to ${model}: ${raw}`)
  }

  await Promise.all(
    Array.from({ length: concurrency }, async () => {
      while (sent < requests) await sendNext()
    }),
  )
  return { counts, wrong }
}

/** `received`: why the answer may be incomplete; null for a complete answer. */
async function send(
  { origin, keys }: RequestPlan,
  customer: number,
  body: object,
  leaveAfterMs: number | null,
): Promise<{ received: Received | null; raw: string }> {
  let raw = ''
  try {
    const response = await fetch(`${origin}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${keys[customer]}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
      ...(leaveAfterMs !== null && { signal: AbortSignal.timeout(leaveAfterMs) }),
    })
    const decoder = new TextDecoder()
    for await (const bytes of response.body!) raw += decoder.decode(bytes, { stream: true })
    const code = /"error":.*"code":"(\w+)"/.exec(raw)?.[1]
    return { received: code === undefined ? null : `error ${code}`, raw }
  } catch {
    return { received: leaveAfterMs === null ? 'broken' : 'left', raw }
  }
}
