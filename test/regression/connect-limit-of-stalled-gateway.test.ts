import { afterAll, beforeAll, expect, test } from 'vitest'
import { uncounted } from '../../src/base/runtime/counted-memory.ts'
import { UpstreamClient } from '../../src/wire/upstreams/upstream-client.ts'
import { ann, limitsOf, offerAt, quarantineEnd, TICK_MS } from '../dispatch/dispatching.ts'
import { type RawUpstream, startRawUpstream } from '../dispatch/raw-upstream.ts'
import { GENEROUS_TIMEOUTS } from '../harness/timeouts.ts'

const CONNECT_MS = 50
/** Longer than the limit, and than the pause between two checks of limits. */
const STALL_MS = 300

let upstream: RawUpstream
let client: UpstreamClient
beforeAll(async () => {
  upstream = await startRawUpstream(({ socket }) => {
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok')
  })
  client = new UpstreamClient({ version: '0.0.0-test', tickMs: TICK_MS })
})
afterAll(async () => {
  client.close()
  await upstream.close()
})

// Went wrong: sixty bodies of 8 MB kept the event loop busy for seconds. The connect limit ended for servers that had
// accepted the connection long before, clients got 500 `all_hosters_failed`, and the healthy server was ejected.
test('the connect limit does not count the time in which the gateway itself was busy', async () => {
  expect(await askAndStall()).toBe('ok')
  await quarantineEnd()
  expect(await askAndStall(), 'on the kept connection').toBe('ok')
  expect(upstream.connections).toHaveLength(1)
})

async function askAndStall(): Promise<string> {
  const { endpoint } = offerAt(upstream.baseUrl, {
    endpoint: { timeouts: { ...GENEROUS_TIMEOUTS, connectMs: CONNECT_MS } },
  })
  const answered = client.send({
    endpoint,
    customerId: ann,
    path: '/chat/completions',
    body: '{}',
    stream: false,
    signal: new AbortController().signal,
    limits: limitsOf(endpoint, false),
    bytesMax: 1024,
    memory: uncounted,
  })
  const endMs = performance.now() + STALL_MS
  while (performance.now() < endMs);
  return (await answered).text
}
