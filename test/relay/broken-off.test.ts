// Streams that do not reach their end. The side that broke the stream off decides what is billed, which error
// the client gets, and whether the server is blamed.
import { afterEach, describe, expect, test, vi } from 'vitest'
import { ApiError } from '../../src/base/domain/errors.ts'
import { uncounted } from '../../src/base/runtime/counted-memory.ts'
import { relayStream, type WriteEvents } from '../../src/request/relay/relay-stream.ts'
import { chatDialect } from '../../src/wire/dialects/chat/chat-dialect.ts'
import { countTokens } from '../../src/wire/tokens/count-tokens.ts'
import { measureText } from '../../src/wire/tokens/measure-text.ts'
import { Connection } from '../../src/wire/upstreams/connection.ts'
import { UpstreamExchange } from '../../src/wire/upstreams/upstream-exchange.ts'
import { jobOf, offerAt, planOf, useDispatching } from '../dispatch/dispatching.ts'
import { parseEventStream } from '../harness/event-stream.ts'
import {
  type Behaviour,
  chunk,
  contentChunk,
  rawResponse,
  sse,
  sseBytes,
  stall,
  status,
  usageChunk,
  usageOf,
} from '../harness/scripted-upstream.ts'
import { GENEROUS_TIMEOUTS } from '../harness/timeouts.ts'
import { useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream('test')
const dispatching = useDispatching('test')
afterEach(() => {
  vi.restoreAllMocks()
  vi.useRealTimers()
})

const role = chunk({ role: 'assistant', content: '' })

/** Sends a chat and relays its stream; `onWrite` gets all text written so far and may delay the stream. */
async function stream(
  signal: AbortSignal,
  onWrite: (text: string) => void | Promise<void>,
  timeouts: Partial<typeof GENEROUS_TIMEOUTS> = {},
  maxTokens = 1_000_000,
) {
  const offer = offerAt(upstream.baseUrl, { endpoint: { timeouts: { ...GENEROUS_TIMEOUTS, ...timeouts } } })
  const offers = [{ ...offer, contextTokens: 2_000_000, maxOutputTokens: 1_000_000 }]
  const job = jobOf({ stream: true })
  const answer = await dispatching.send(offers, { stream: true }, signal)
  let text = ''
  const write: WriteEvents = events => {
    text += events
    return onWrite(text)
  }
  const ticket = { ...planOf(offers).ticket, maxTokens }
  const context = {
    ticket,
    job,
    dialect: chatDialect,
    signal,
    memory: uncounted,
    measureText: async (text: string) => measureText(text),
    keepsParts: false,
    chargeEarlyDisconnect: () => true,
  }
  if (answer.kind !== 'stream') throw new Error('the answer is no stream')
  const relayed = await relayStream(context, answer, chatDialect.stream.encoder(answer.envelope, job), write)
  const last = relayed.lastEvents(0n)
  if (last !== '') await write(last)
  const faults = relayed.receipt.outcome === 'interrupted' ? [relayed.failure] : []
  return { receipt: relayed.receipt, seen: parseEventStream(text), faults }
}

test('by its client: the input and the output so far are billed', async () => {
  upstream.respondWith(stall({ pieces: ['one', ' two'] }))
  const client = new AbortController()
  const { receipt, faults } = await stream(client.signal, text => {
    if (text.includes(' two')) client.abort('client_gone')
  })
  expect(receipt).toMatchObject({ outcome: 'client_gone', billedInputTokens: 7, billedOutputTokens: 2 })
  expect(faults).toEqual([])
  expect(dispatching.reports).toEqual(['success one/public-model'])
})

test('by its server, before a client that was still reading earlier output left: free', async () => {
  upstream.respondWith(sse([role, contentChunk('one'), contentChunk(' two')], { ending: 'reset' }))
  const isLost = Promise.withResolvers<void>()
  const { onResponseError } = UpstreamExchange.prototype
  vi.spyOn(UpstreamExchange.prototype, 'onResponseError').mockImplementation(function (this: UpstreamExchange, error) {
    onResponseError.call(this, error)
    isLost.resolve()
  })
  const client = new AbortController()
  const { receipt, faults } = await stream(client.signal, async () => {
    await isLost.promise
    client.abort('client_gone')
  })
  expect(receipt).toMatchObject({ outcome: 'interrupted', billedInputTokens: 0, billedOutputTokens: 0 })
  expect(faults).toMatchObject([{ outcome: 'server_error' }])
  expect(dispatching.reports).toEqual(['failure one/public-model server_error'])
})

test('by its server, while earlier output waited for the client: that output is sent first', async () => {
  const isReading = Promise.withResolvers<void>()
  upstream.respondWith(
    sse([role, contentChunk('one'), contentChunk(' two')], {
      ending: 'reset',
      beforeEvent: index => (index === 2 ? isReading.promise : undefined),
    }),
  )
  const isLost = Promise.withResolvers<void>()
  const { onResponseError } = UpstreamExchange.prototype
  vi.spyOn(UpstreamExchange.prototype, 'onResponseError').mockImplementation(function (this: UpstreamExchange, error) {
    onResponseError.call(this, error)
    isLost.resolve()
  })
  const { seen } = await stream(new AbortController().signal, () => {
    isReading.resolve()
    return isLost.promise
  })
  expect(seen).toMatchObject({ text: 'one two', done: false, error: { code: 'stream_interrupted' } })
})

test.each<[how: string, stop: (request: AbortController) => unknown]>([
  ['its drain limit passes', request => request.abort(new ApiError('server_shutdown'))],
  ['it closes its connections', () => dispatching.close()],
])('by the gateway, when %s: free, with an error', async (_how, stop) => {
  upstream.respondWith(stall({ pieces: ['one', ' two'] }))
  const request = new AbortController()
  const { receipt, seen } = await stream(request.signal, text => {
    if (text.includes(' two')) stop(request)
  })
  expect(receipt).toMatchObject({ outcome: 'shutdown', billedInputTokens: 0, billedOutputTokens: 0 })
  expect(seen).toMatchObject({ done: false, error: { code: 'server_shutdown' } })
  expect(dispatching.reports).toEqual(['success one/public-model'])
})

describe('by the relay at max_tokens, after all of it had arrived:', () => {
  const tooMuch = 'some more words of it '.repeat(60)
  const finished = [contentChunk(tooMuch), chunk({}, 'stop'), usageChunk(usageOf(7, 300)), '[DONE]']
  const events = sseBytes([role, ...finished])
  const unterminated = sseBytes([role, contentChunk('a'), chunk({ content: tooMuch }, 'stop')]).subarray(0, -2)
  const whole = { choices: [{ message: { content: tooMuch }, finish_reason: 'stop' }], usage: usageOf(7, 300) }

  test.each<[how: string, behaviour: Behaviour]>([
    ['with the end of its response', rawResponse(events, { framing: 'length' })],
    ['without the end of its response', rawResponse(events, { framing: 'chunked', ending: 'stall' })],
    ['as a whole answer', status(200, whole)],
    ['without the last blank line', rawResponse(unterminated, { framing: 'length' })],
  ])('%s', async (_how, behaviour) => {
    upstream.respondWith(behaviour)
    const { receipt, seen } = await stream(new AbortController().signal, () => {}, {}, 5)
    const choices = seen.chunks.flatMap(each => each.choices)
    expect(choices.flatMap(choice => choice.finish_reason ?? [])).toEqual(['length'])
    expect(choices.at(-1)).toMatchObject({ delta: {}, finish_reason: 'length' })
    expect(tooMuch).toContain(seen.text.slice(1))
    expect(countTokens(seen.text)).toBeLessThanOrEqual(5 * 1.25 + 8)
    expect(seen.done).toBe(true)
    expect(receipt).toMatchObject({ outcome: 'served', finishReason: 'length', billedOutputTokens: 5 })
    expect(dispatching.reports).toEqual(['success one/public-model'])
  })
})

describe('by a time limit', () => {
  const burst = Array.from({ length: 60 }, () => contentChunk('word '.repeat(2_000)))
  const end = [chunk({}, 'stop'), '[DONE]']
  const slowly = { outcome: 'client_gone', billedInputTokens: 7 }
  const free = { outcome: 'interrupted', billedInputTokens: 0, billedOutputTokens: 0 }

  /**
   * Runs a stream on a fake clock. The server sends a word and, `beforeS` later, more than the buffers hold,
   * followed by nothing or by its end. The client stops reading for `heldUpS`, then reads everything at once,
   * and the server is silent for `afterS`.
   */
  async function stallStream(
    { beforeS, heldUpS, afterS }: { beforeS: number; heldUpS: number; afterS: number },
    timeouts: Partial<typeof GENEROUS_TIMEOUTS>,
    ending: 'stall' | 'finish' = 'stall',
  ) {
    vi.useFakeTimers({ toFake: ['performance', 'setInterval', 'clearInterval'] })
    const passes = (seconds: number) => vi.advanceTimersByTime(seconds * 1_000)
    const isHeldUp = Promise.withResolvers<void>()
    const { pause } = Connection.prototype
    vi.spyOn(Connection.prototype, 'pause').mockImplementation(function (this: Connection) {
      pause.call(this)
      isHeldUp.resolve()
    })
    const isBegun = Promise.withResolvers<void>()
    const mayGoOn = Promise.withResolvers<void>()
    const mayRead = Promise.withResolvers<void>()
    const hasReadAll = Promise.withResolvers<void>()
    upstream.respondWith(
      sse([role, contentChunk('begun'), ...burst, contentChunk('all of it'), ...(ending === 'finish' ? end : [])], {
        beforeEvent: index => (index === 2 ? mayGoOn.promise : undefined),
        ending,
      }),
    )
    const streaming = stream(
      new AbortController().signal,
      text => {
        isBegun.resolve()
        if (text.includes('all of it')) hasReadAll.resolve()
        if (text.includes('word')) return mayRead.promise
      },
      timeouts,
    )
    await isBegun.promise
    passes(beforeS)
    mayGoOn.resolve()
    await isHeldUp.promise
    passes(heldUpS)
    // The limits are checked at the end of the turn.
    await new Promise(setImmediate)
    mayRead.resolve()
    if (afterS > 0) await hasReadAll.promise
    passes(afterS)
    const { receipt, seen } = await streaming
    return { receipt, message: seen.error?.message, reports: dispatching.reports }
  }
  const servers = {
    message: expect.stringContaining('before the answer was complete'),
    reports: ['failure one/public-model server_error'],
  }
  const readers = { message: expect.stringContaining('read too slowly'), reports: ['success one/public-model'] }

  test('of a server that stalls after the client had paused and caught up: free', async () => {
    const ended = await stallStream({ beforeS: 0, heldUpS: 19, afterS: 21 }, { idleMs: 20_000 })
    expect(ended).toMatchObject({ ...servers, receipt: free })
  })

  const unending = { idleMs: 600_000, totalMs: 60_000 }

  test('of a client that delayed its server for the whole limit: the generated output is billed', async () => {
    const ended = await stallStream({ beforeS: 20, heldUpS: 101, afterS: 0 }, unending)
    expect(ended).toMatchObject({ ...readers, receipt: slowly })
    expect(ended.receipt.billedOutputTokens).toBeGreaterThan(30_000)
  })

  test('of a client that delayed its server and caught up just before the limit: the generated output is billed', async () => {
    const ended = await stallStream({ beforeS: 0, heldUpS: 61, afterS: 60 }, unending)
    expect(ended).toMatchObject({ ...readers, receipt: slowly })
  })

  test.each([[{ beforeS: 50, heldUpS: 40, afterS: 11 }], [{ beforeS: 0, heldUpS: 59, afterS: 61 }]])(
    'of a server that took too long itself although the client had also paused: free',
    async times => {
      const ended = await stallStream(times, unending)
      expect(ended).toMatchObject({ ...servers, receipt: free })
    },
  )

  test('has no effect on a client that pauses longer than its server may while output waits for it', async () => {
    const { receipt } = await stallStream({ beforeS: 0, heldUpS: 41, afterS: 0 }, { idleMs: 20_000 }, 'finish')
    expect(receipt).toMatchObject({ outcome: 'served', billedInputTokens: 7 })
  })

  test.each([[{ beforeS: 40, heldUpS: 25, afterS: 0 }], [{ beforeS: 59, heldUpS: 59, afterS: 0 }]])(
    'has no effect on a server within its time: a client that delays it must pay',
    async times => {
      const { receipt, reports } = await stallStream(times, unending, 'finish')
      expect(receipt).toMatchObject({ outcome: 'served', billedInputTokens: 7 })
      expect(receipt.billedOutputTokens).toBeGreaterThan(30_000)
      expect(reports).toEqual(['success one/public-model'])
    },
  )
})
