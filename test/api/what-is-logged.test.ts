import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { startTestApp, type TestApp, testOffer } from '../harness/app.ts'
import {
  type Behaviour,
  contentChunk,
  rawResponse,
  type ScriptedUpstream,
  sse,
  startScriptedUpstream,
  status,
} from '../harness/scripted-upstream.ts'

let upstream: ScriptedUpstream
let gateway: TestApp
beforeAll(async () => {
  upstream = await startScriptedUpstream()
})
afterEach(() => gateway?.close())
afterAll(() => upstream?.close())

const prompt = 'My diagnosis is lupus'
const reply = 'prednisone'
/** `JSON.parse` quotes what is around the place where it fails. */
const broken = `{"choices":[{"delta":{"content":${reply}`

/** All lines that the gateway logs of one chat, at this level. */
async function logOf(behaviour: Behaviour, { stream = false, level = 'info' } = {}): Promise<string> {
  let log = ''
  gateway = await startTestApp({
    offers: [testOffer(upstream.baseUrl)],
    yaml: `log: { level: ${level} }`,
    onLog: line => {
      log += line
    },
  })
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
  ['one in plain text', status(500, `Cannot parse "${prompt}"`), false, '"reasons":["500"]'],
  ['one that breaks a stream off', sse([contentChunk('Well'), quoting]), true, '200 with an error server_error'],
  ['an answer that is no JSON', status(200, broken), false, 'not valid JSON'],
  ['a part of a stream that is no JSON', sse([contentChunk('Well'), broken]), true, 'not valid JSON'],
  ['an answer without a head', rawResponse(`Take two of ${reply}\r\n\r\n`), false, 'does not speak HTTP'],
])('%s is not in the log, but what went wrong is', async (_what, behaviour, stream, logged) => {
  const log = await logOf(behaviour, { stream })
  expect(log).toContain(logged)
  expect(log).not.toContain('lupus')
  expect(log).not.toContain('predni')
})

test.each([
  ['before the first content', status(500, quoting), false],
  ['in the middle of a stream', sse([contentChunk('Well'), quoting]), true],
] as const)('what a server said %s is there for who asks for it', async (_when, behaviour, stream) => {
  const line = (await logOf(behaviour, { stream, level: 'debug' }))
    .split('\n')
    .find(text => text.includes('upstreamMessages'))
  expect(JSON.parse(line!)).toMatchObject({ level: 20, upstreamMessages: [`Cannot parse "${prompt}"`] })
})
