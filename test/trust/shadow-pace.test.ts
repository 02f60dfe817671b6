import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { plainAccess } from '../../src/base/domain/caller.ts'
import { ApiError } from '../../src/base/domain/errors.ts'
import type { Receipt, Ticket } from '../../src/base/domain/handoff.ts'
import type { AskedAnswer } from '../../src/market/trust/audits/ask-offer.ts'
import { createShadow } from '../../src/market/trust/audits/shadow.ts'
import { sharedBody } from '../../src/market/trust/audits/shared-body.ts'
import { chatDialect } from '../../src/wire/dialects/chat/chat-dialect.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'
import { offerOf } from '../supply/random-market.ts'
import { createCustomers, createHoster } from './trust-world.ts'

// Which answers are compared, and how often.

const database = useTestDatabase()
const PAUSE_MS = 20_000

interface World {
  /** An answer to a customer, when `ms` have passed. Returns how many requests the reference has had. */
  serve(
    fields?: object,
    options?: { ms?: number; text?: string; finishReason?: string; endpoint?: 'other'; customer?: 'other' },
  ): Promise<number>
  readonly asked: Record<string, unknown>[]
  /** Sets what the reference answers from now on. */
  answer(with_: () => Promise<AskedAnswer | null>): void
  draw: number
  readonly stop: () => Promise<void>
}

async function world({ isAskedAlike = true, hasReference = true } = {}): Promise<World> {
  const { hosterId, endpointId } = await createHoster(database)
  const [customerId, otherId] = await createCustomers(database, 2)
  const hosted = offerOf({ kind: 'hoster', hosterId, name: endpointId })
  const other = offerOf({ kind: 'hoster', hosterId, name: randomUUID() })
  const [reference, otherReference] = [offerOf({ name: 'mine' }), offerOf({ name: 'cheaper' })]
  const asked: Record<string, unknown>[] = []
  let nowMs = 0
  // Tells nothing, so a comparison ends at once.
  let answer = async (): Promise<AskedAnswer | null> => ({ text: '', topTokens: [] })
  const caller = {
    ...{ customerId: customerId!, keyId: randomUUID(), access: plainAccess, email: 'ada@example.com' },
    ...{ prices: null, accountTier: 'standard', sharesRequests: true },
    limits: { requestsPerMinute: 1, requestsPerDay: 1, dailySpendCapNanos: 1n },
  }
  const shadow = createShadow({
    pool: database.pool,
    clock: { epochMs: () => nowMs, monotonicMs: () => nowMs },
    random: () => made.draw,
    pauseMs: PAUSE_MS,
    referenceOf: ({ endpoint }) =>
      hasReference ? (endpoint === other.endpoint ? otherReference : reference) : undefined,
    isAskedAlike: () => isAskedAlike,
    relatedCustomers: async () => new Set<string>(),
    async ask(_customer, _reference, body) {
      asked.push(body as Record<string, unknown>)
      return answer()
    },
    log: { debug() {} },
  })
  const made: World = {
    asked,
    draw: 0,
    stop: shadow.stop,
    answer(with_) {
      answer = with_
    },
    async serve(fields = {}, { ms = PAUSE_MS, text = 'The Elbe.', finishReason = 'stop', endpoint, customer } = {}) {
      nowMs += ms
      const body = { model: 'm', messages: [{ role: 'user', content: 'Which river?' }], temperature: 0, ...fields }
      const job = chatDialect.parseRequest(Buffer.from(JSON.stringify(body)))
      const receipt = { offer: endpoint === 'other' ? other : hosted, finishReason } as Receipt
      shadow.onServed(
        { caller: customer === 'other' ? { ...caller, customerId: otherId! } : caller, job },
        { maxTokens: 50 } as Ticket,
        receipt,
        () => text,
        () => sharedBody(job, 32_768),
      )
      // Neither the look-up of related customers nor the reference takes longer than this turn.
      await new Promise(resolve => setImmediate(resolve))
      return asked.length
    },
  }
  return made
}

test('an endpoint is compared once in a pause, each on its own, by draw', async () => {
  const { serve, ...rest } = await world()
  expect(await serve()).toBe(1)
  expect(await serve({}, { ms: PAUSE_MS - 1 })).toBe(1)
  expect(await serve({}, { ms: 0, endpoint: 'other' })).toBe(2)
  expect(await serve({}, { ms: 1 })).toBe(3)
  await rest.stop()
})

test('the first answer after a pause is not always drawn, and answers at random less often', async () => {
  const drawn = await world()
  drawn.draw = 0.4
  expect(await drawn.serve({ temperature: 1 })).toBe(0)
  expect(await drawn.serve()).toBe(1)
  drawn.draw = 0.2
  expect(await drawn.serve({ temperature: undefined })).toBeGreaterThan(1)
  drawn.draw = 0.6
  const count = drawn.asked.length
  expect(await drawn.serve()).toBe(count)
  await drawn.stop()
})

test.each<[string, object, object]>([
  ['a call of a tool', { tools: [{ type: 'function', function: { name: 'f' } }] }, { finishReason: 'tool_calls' }],
  ['a filtered answer', {}, { finishReason: 'content_filter' }],
  ['an empty answer', {}, { text: '' }],
  ['a long answer', {}, { text: 'x'.repeat(65_537) }],
  ['a long prompt', { messages: [{ role: 'user', content: 'x'.repeat(32_769) }] }, {}],
  ['several choices', { n: 2 }, {}],
])('is not compared: %s', async (_, fields, options) => {
  const { serve, stop } = await world()
  expect(await serve(fields, options)).toBe(0)
  await stop()
})

test.each([
  ['nearly greedy sampling', { temperature: 0.2 }, 1],
  ['a small nucleus', { temperature: 1, top_p: 0.1 }, 1],
  ['the likeliest token only', { temperature: 1, top_k: 1 }, 1],
  ['sampling by chance', { temperature: 1 }, 3],
])('without log probabilities, two answers of the reference say nothing about %s', async (_, fields, asked) => {
  const { serve, answer, stop } = await world()
  answer(async () => ({ text: 'The Elbe.', topTokens: [] }))
  await serve(fields)
  await stop()
  expect(await serve(fields)).toBe(asked)
})

test('a request without tools was not answered by calls, whatever the hoster says', async () => {
  const { serve, stop } = await world()
  expect(await serve({}, { finishReason: 'tool_calls' })).toBe(1)
  await stop()
})

test('nothing is sent without a reference, or to one that does not get the whole request', async () => {
  expect(await (await world({ hasReference: false })).serve()).toBe(0)
  expect(await (await world({ isAskedAlike: false })).serve()).toBe(0)
})

test('a temperature of 0 asks for log probabilities, unless other fields change the choice', async () => {
  const { serve, asked, stop } = await world()
  await serve()
  await serve({ frequency_penalty: 1 })
  await serve({ frequency_penalty: 0, max_tokens: 9 })
  expect(asked.map(({ logprobs, max_tokens }) => [logprobs, max_tokens])).toEqual([
    [true, 50],
    [undefined, 50],
    [true, 50],
  ])
  await stop()
})

test('without credit of the house for a reference, it is not asked for ten minutes, and others are', async () => {
  const { serve, answer, stop } = await world()
  answer(() => Promise.reject(new ApiError('insufficient_credits')))
  expect(await serve()).toBe(1)
  expect(await serve({}, { ms: 579_000 })).toBe(1)
  expect(await serve({}, { endpoint: 'other' })).toBe(2)
  expect(await serve({}, { ms: 1_000 })).toBe(3)
  await stop()
})

test('an answer for which nobody pays takes the turn of no other customer, and that customer rests for ten minutes', async () => {
  const { serve, answer, stop } = await world()
  answer(async () => null)
  expect(await serve()).toBe(1)
  answer(async () => ({ text: '', topTokens: [] }))
  expect(await serve({}, { ms: 0 })).toBe(1)
  expect(await serve({}, { ms: 0, customer: 'other' })).toBe(2)
  expect(await serve({}, { ms: 599_999 })).toBe(2)
  expect(await serve({}, { ms: 1 })).toBe(3)
  await stop()
})

test('two comparisons run at once, and a stopped process starts no more', async () => {
  const { serve, answer, stop } = await world()
  const { promise, resolve } = Promise.withResolvers<AskedAnswer>()
  answer(() => promise)
  for (const count of [1, 2, 2]) expect(await serve()).toBe(count)
  const stopped = stop()
  resolve({ text: 'The Elbe.', topTokens: [] })
  await stopped
  expect(await serve()).toBe(2)
})

test.each<[string, Partial<AskedAnswer>]>([
  ['reasoning or calls', { hasOther: true }],
  ['reasoning in its text', { text: '\n<think>Hm.</think> The Elbe.' }],
])('an answer of the reference with %s tells nothing', async (_, part) => {
  const { serve, answer, stop } = await world()
  answer(async () => ({ text: 'The Rhine.', topTokens: [], ...part }))
  const before = await countCompared()
  await serve()
  await stop()
  expect(await countCompared()).toBe(before)
})

async function countCompared(): Promise<number> {
  const { rows } = await database.pool.query<{ count: number }>('SELECT count(*)::int AS count FROM compared_answer')
  return rows[0]!.count
}
