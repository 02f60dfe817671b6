import { expect, onTestFinished, test } from 'vitest'
import { startTestApp, testOffer } from '../harness/app.ts'
import { type Behaviour, contentChunk, rawResponse, sse, status } from '../harness/scripted-upstream.ts'
import { useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()

const prompt = 'My diagnosis is lupus'
const reply = 'prednisone'
/** The message of `JSON.parse` quotes the text around the error. */
const broken = `{"choices":[{"delta":{"content":${reply}`

/** The lines that a gateway logs for one chat at this level. */
async function logOf(behaviour: Behaviour, { stream = false, level = 'info' } = {}): Promise<string> {
  let log = ''
  const gateway = await startTestApp({
    offers: [testOffer(upstream.baseUrl)],
    yaml: `log: { level: ${level} }`,
    onLog: line => {
      log += line
    },
  })
  onTestFinished(() => gateway.close())
  upstream.respondWith(behaviour)
  const customer = await gateway.customer()
  const body = { model: 'test-model', stream, messages: [{ role: 'user', content: prompt }] }
  await (await gateway.chat(customer, body)).text()
  await gateway.settled(customer, 1)
  await gateway.stop()
  expect(log).not.toContain(customer.key)
  return log
}

const quoting = { error: { message: `Cannot parse "${prompt}"`, type: 'server_error', code: 'template_failed' } }

test.each<[what: string, behaviour: Behaviour, stream: boolean, logged: string]>([
  ['an error that quotes the prompt', status(500, quoting), false, '500 server_error template_failed'],
  ['a plain-text error that quotes the prompt', status(500, `Cannot parse "${prompt}"`), false, '"reasons":["500"]'],
  ['an error that ends a stream', sse([contentChunk('Well'), quoting]), true, '200 with an error server_error'],
  ['an answer that is not JSON', status(200, broken), false, 'not valid JSON'],
  ['an event that is not JSON', sse([contentChunk('Well'), broken]), true, 'not valid JSON'],
  ['a response without a status line', rawResponse(`Take two of ${reply}\r\n\r\n`), false, 'does not speak HTTP'],
])('the log has the kind of failure but no text of %s', async (_what, behaviour, stream, logged) => {
  const log = await logOf(behaviour, { stream })
  expect(log).toContain(logged)
  expect(log).not.toContain('lupus')
  expect(log).not.toContain('predni')
})

test.each([
  ['before the first content', status(500, quoting), false],
  ['in the middle of a stream', sse([contentChunk('Well'), quoting]), true],
] as const)('the log at level debug has the error text of a server %s', async (_when, behaviour, stream) => {
  const line = (await logOf(behaviour, { stream, level: 'debug' }))
    .split('\n')
    .find(text => text.includes('upstreamMessages'))
  expect(JSON.parse(line!)).toMatchObject({ level: 20, upstreamMessages: [`Cannot parse "${prompt}"`] })
})
