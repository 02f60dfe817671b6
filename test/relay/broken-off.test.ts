// What a stream that does not reach its end comes to: who broke it off decides what is billed, what its client is told and what its server is
// held responsible for.
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { UpstreamExchange } from '../../src/dispatch/upstream-exchange.ts'
import { ApiError } from '../../src/domain/errors.ts'
import type { Receipt } from '../../src/domain/handoff.ts'
import type { Offer } from '../../src/domain/offer.ts'
import { relay, type WriteFrames } from '../../src/relay/relay.ts'
import { type Dispatching, jobOf, offerAt, planOf, startDispatching } from '../dispatch/dispatching.ts'
import { parseEventStream } from '../harness/event-stream.ts'
import {
  chunk,
  contentChunk,
  type ScriptedUpstream,
  sse,
  stall,
  startScriptedUpstream,
} from '../harness/scripted-upstream.ts'

let upstream: ScriptedUpstream
let dispatching: Dispatching
beforeEach(async () => {
  upstream = await startScriptedUpstream()
  dispatching = startDispatching()
})
afterEach(async () => {
  vi.restoreAllMocks()
  await dispatching.close()
  await upstream.close()
})

const role = chunk({ role: 'assistant', content: '' })

/** Sends a chat and passes its stream on; `onWrite` hears of all that was written so far, and may make the stream wait. */
async function stream(signal: AbortSignal, onWrite: (text: string) => void | Promise<void>, offer?: Offer) {
  const offers = [offer ?? offerAt(upstream.baseUrl)]
  const job = jobOf({ stream: true })
  const answer = await dispatching.send(offers, { stream: true }, signal)
  const receipts: Receipt[] = []
  const faults: unknown[] = []
  const delivery = await relay(
    {
      ticket: planOf(offers).ticket,
      job,
      signal,
      settle: async receipt => {
        receipts.push(receipt)
        return 0n
      },
      chargeEarlyLeave: () => true,
      onFault: fault => faults.push(fault),
    },
    answer,
  )
  if (delivery.kind !== 'stream') throw new Error('the answer is no stream')
  let text = ''
  const write: WriteFrames = frames => {
    text += frames
    return onWrite(text)
  }
  await delivery.sendTo(write)
  expect(receipts).toHaveLength(1)
  return { receipt: receipts[0]!, seen: parseEventStream(text), faults }
}

test('by its client: input and what came until then are billed', async () => {
  upstream.respondWith(stall({ pieces: ['one', ' two'] }))
  const client = new AbortController()
  const { receipt, faults } = await stream(client.signal, text => {
    if (text.includes(' two')) client.abort('client_gone')
  })
  expect(receipt).toMatchObject({ outcome: 'client_gone', billedInputTokens: 7, billedOutputTokens: 2 })
  expect(faults).toEqual([])
  expect(dispatching.reports).toEqual(['success one/public-model'])
})

test('by its server, before the client left that was still reading what had come: free', async () => {
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

test.each<[how: string, stop: (request: AbortController) => unknown]>([
  ['its drain limit passes', request => request.abort(new ApiError('server_shutdown'))],
  ['it closes its connections', () => dispatching.close()],
])('by the gateway, when %s: free, and it says so', async (_how, stop) => {
  upstream.respondWith(stall({ pieces: ['one', ' two'] }))
  const request = new AbortController()
  const { receipt, seen } = await stream(request.signal, text => {
    if (text.includes(' two')) stop(request)
  })
  expect(receipt).toMatchObject({ outcome: 'shutdown', billedInputTokens: 0, billedOutputTokens: 0 })
  expect(seen).toMatchObject({ done: false, error: { code: 'server_shutdown' } })
  expect(dispatching.reports).toEqual(['success one/public-model'])
})
