import { expect, test, vi } from 'vitest'
import { testOffer } from '../harness/app.ts'
import { readEventStream } from '../harness/event-stream.ts'
import { openClient } from '../harness/raw-client.ts'
import { sse, streamEvents, usageOf } from '../harness/scripted-upstream.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const gateway = useTestApp(() => ({
  yaml: 'server: { max_connections: 4 }',
  offers: [testOffer(upstream.baseUrl)],
}))

test('strangers that send nothing keep no customer out and end no running answer', async () => {
  const customer = await gateway.customer()
  const gate = Promise.withResolvers<void>()
  upstream.respondWith(
    sse(streamEvents({ usage: usageOf(1, 1) }), {
      beforeEvent: index => (index === 2 ? gate.promise : undefined),
    }),
  )
  const messages = [{ role: 'user', content: 'Hi' }]
  const running = await gateway.chat(customer, { model: 'test-model', messages, stream: true })
  const strangers = Array.from({ length: 20 }, () => openClient(Number(new URL(gateway.url).port)))
  const open = () => strangers.filter(({ isEnded }) => !isEnded)
  await vi.waitFor(() => expect(open()).toHaveLength(3), WAIT_OPTIONS)
  expect((await gateway.chat(customer, { model: 'test-model', messages })).status).toBe(200)
  expect(open().length).toBeLessThan(3)
  gate.resolve()
  expect((await readEventStream(running)).done).toBe(true)
})
