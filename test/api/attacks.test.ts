import { expect, onTestFinished, test } from 'vitest'
import { startTestApp, testOffer } from '../harness/app.ts'
import { readEventStream } from '../harness/event-stream.ts'
import { rawRequest } from '../harness/raw-request.ts'
import { answer, status } from '../harness/scripted-upstream.ts'
import { useCustomer, useTestApp, useUpstream } from '../harness/use-test-app.ts'

// Attacks that belong to no single status. docs/security.md lists all attacks with their tests.

const upstream = useUpstream()
const gateway = useTestApp(() => ({ offers: [testOffer(upstream.baseUrl)] }))
const customer = useCustomer(gateway)

const chatWith = (content: string) => ({ model: 'test-model', messages: [{ role: 'user', content }] })

test.each(['/v1/usage', '/v1/usage/tokens', '/v1/usage/breakdown', '/v1/usage/export', '/v1/credits', '/v1/keys'])(
  'no parameter and no header of %s leads to another customer',
  async path => {
    const victim = await gateway.customer()
    await (await gateway.chat(victim, chatWith('Hello'))).text()
    const stranger = await gateway.customer({ key: { scopes: ['manage'] } })
    const read = async (query: string, headers: Record<string, string> = {}) => {
      const authorization = `Bearer ${stranger.key}`
      const response = await fetch(`${gateway.url}${path}?${query}`, { headers: { authorization, ...headers } })
      return [response.status, await response.text()]
    }
    const own = await read('')
    expect(own[0]).toBe(200)
    for (const name of ['customer', 'customer_id', 'account', 'user', 'id'])
      expect(await read(`${name}=${victim.customerId}`)).toEqual(own)
    for (const name of ['x-customer-id', 'x-user-id', 'openai-organization', 'openai-project', 'x-api-key'])
      expect(await read('', { [name]: name === 'x-api-key' ? victim.key : victim.customerId })).toEqual(own)
  },
)

test('the log has no API key and no control character, whatever clients and servers send', async () => {
  let log = ''
  const logged = await startTestApp({
    offers: [testOffer(upstream.baseUrl)],
    yaml: 'log: { level: debug }',
    onLog: line => {
      log += line
    },
  })
  onTestFinished(() => logged.close())
  const { key, ...caller } = await logged.customer()
  const hostile = `${key} \u001b[2J\u009b1m\r\n{"level":30,"msg":"forged"}`
  upstream.respondWith(status(500, { error: { message: hostile, type: hostile, code: hostile } }))
  await (await logged.chat({ key, ...caller }, { ...chatWith(hostile), user: hostile })).text()
  upstream.respondWith(status(400, hostile))
  await (await logged.chat({ key, ...caller }, chatWith(hostile))).text()
  await (await logged.chat({ key, ...caller }, { ...chatWith(hostile), tier: hostile })).text()
  await (await logged.chat({ key, ...caller }, { ...chatWith('Hello'), model: `no ${key}` })).text()
  for (const target of [`/v1/usage?api_key=${key}`, `/${key}`, `/v1/models/${key}`])
    await rawRequest(logged.url, `GET ${target} HTTP/1.1\r\nhost: x\r\nuser-agent: ${key}\r\nconnection: close\r\n\r\n`)
  await logged.settled({ key, ...caller }, 1)
  await logged.stop()
  expect(log).toContain('upstreamMessages')
  expect(log).not.toContain(key)
  for (const line of log.trimEnd().split('\n')) {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: the test looks for them
    expect(line).not.toMatch(/[\u0000-\u001f\u007f-\u009f]/)
    expect((JSON.parse(line) as { msg: string }).msg).not.toBe('forged')
  }
})

test('a body that is shorter than its Content-Length is a 408 at the end of its time, and does not run', async () => {
  const hurried = await startTestApp({ offers: [testOffer(upstream.baseUrl)] })
  onTestFinished(() => hurried.close())
  hurried.app.server.server.requestTimeout = 1
  const sentBefore = upstream.requests.length
  const body = JSON.stringify(chatWith('Hello'))
  const { key, ...caller } = await hurried.customer()
  const { status, body: refused } = await rawRequest(
    hurried.url,
    `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\n` +
      `content-type: application/json\r\ncontent-length: ${body.length + 1}\r\n\r\n${body}`,
  )
  expect([status, JSON.parse(refused).error.code]).toEqual([408, 'request_timeout'])
  expect(upstream.requests.length).toBe(sentBefore)
  expect(await hurried.usage({ key, ...caller })).toEqual([])
})

test('HTML in an answer is passed on as data of a JSON or event-stream response', async () => {
  const html = '<script>alert(1)</script><img src=x onerror=alert(2)>'
  upstream.respondWith(answer({ text: html }))
  const whole = await gateway.chat(customer, chatWith('Hello'))
  expect(whole.headers.get('content-type')).toBe('application/json; charset=utf-8')
  expect(await whole.json()).toMatchObject({ choices: [{ message: { content: html } }] })
  upstream.respondWith(answer({ text: html }))
  const stream = await gateway.chat(customer, { ...chatWith('Hello'), stream: true })
  expect(stream.headers.get('content-type')).toBe('text/event-stream; charset=utf-8')
  expect(await readEventStream(stream)).toMatchObject({ text: html, done: true })
})
