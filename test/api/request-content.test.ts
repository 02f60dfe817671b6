import { expect, test, vi } from 'vitest'
import { rolesWith } from '../../src/base/domain/member-role.ts'
import { UUID } from '../../src/base/runtime/uuid.ts'
import { forSession } from '../../src/http/console/for-session.ts'
import { alertEndpoints } from '../../src/http/endpoints/alerts.ts'
import { keysList } from '../../src/http/endpoints/keys.ts'
import { usageContent } from '../../src/http/endpoints/usage-requests.ts'
import { deleteContents } from '../../src/money/usage/content/delete-contents.ts'
import { addContentDays, dropContentDays } from '../../src/money/usage/content/keep-content-days.ts'
import type { ShownContent } from '../../src/wire/api/activity.ts'
import { startTestApp, type TestCustomer, testOffer } from '../harness/app.ts'
import { signedInMember, signedInOperator } from '../harness/browser-client.ts'
import { clientWires } from '../harness/client-wires.ts'
import { startOtlpReceiver } from '../harness/otlp-receiver.ts'
import { answer, chunk, completion, sse, usageChunk, usageOf } from '../harness/scripted-upstream.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { useResource } from '../harness/use-resource.ts'
import { useCustomer, useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const collector = useResource(startOtlpReceiver, receiver => receiver.close())
const gateway = useTestApp(() => ({
  offers: [testOffer(upstream.baseUrl, { contextTokens: 200_000, maxOutputTokens: 60_000 })],
  yaml: `reports: { requests_per_minute: 100000 }\ncontent: { allow_recording: true }\ntelemetry: { endpoint: "${collector.url}", metrics: false }`,
  timeouts: { spanDelayMs: 5 },
}))
const manager = useCustomer(gateway, { key: { scopes: ['manage'], recordsContent: true } })

const unused = () => expect.unreachable()
const AWS_KEY = ['AKIA', 'IOSFODNN7EXAMPLF'].join('')
const prompt = `Write to ada@example.com with ${AWS_KEY} from 203.0.113.7`
const ask = {
  model: 'test-model',
  messages: [
    { role: 'system', content: 'Be kind' },
    { role: 'user', content: prompt },
  ],
}

async function contentOf(of: TestCustomer, response: Response): Promise<Response> {
  return gateway.get(of, `/v1/usage/requests/${response.headers.get('x-request-id')}/content`)
}

async function recordedContent(response: Response): Promise<ShownContent> {
  return vi.waitFor(async () => {
    const shown = await contentOf(manager, response)
    expect(shown.status).toBe(200)
    return (await shown.json()) as ShownContent
  }, WAIT_OPTIONS)
}

const countOfRows = async () => {
  const { rows } = await gateway.database.pool.query<{ count: number }>('SELECT count(*)::int FROM request_content')
  return rows[0]?.count ?? 0
}

test('a key that records has prompt and answer, without credentials and personal data', async () => {
  upstream.respondWith(answer({ text: 'Dear Bob, mail bob@example.org' }))
  const response = await gateway.chat(manager, ask)
  const content = await recordedContent(response)
  expect(content.messages.map(({ role }) => role)).toEqual(['system', 'user'])
  const all = JSON.stringify(content)
  for (const personal of ['ada@example.com', 'bob@example.org', AWS_KEY, '203.0.113.7'])
    expect(all).not.toContain(personal)
  expect(content.messages[0]?.text).toBe('Be kind')
  expect(content.messages[1]?.text).toMatch(/^Write to \[\w+\] with \[\w+\] from \[\w+\]$/)
  expect(content.answer).toMatch(/^Dear Bob, mail \[\w+\]$/)
  expect(content.redactions).toBe(4)
  expect(upstream.requests.at(-1)?.rawBody).toContain('ada@example.com')
  const receipt = await gateway.get(manager, `/v1/usage/requests/${content.id}`)
  expect(await receipt.json()).toMatchObject({ has_content: true })
  const { rows } = await gateway.database.pool.query('SELECT sealed FROM request_content')
  expect(rows.some(({ sealed }) => (sealed as Buffer).includes('Be kind'))).toBe(false)
})

test('a stream is recorded, and the span of its answer has what is recorded', async () => {
  upstream.respondWith(answer({ text: 'Streamed to eve@example.net' }))
  const response = await gateway.chat(manager, { ...ask, stream: true })
  await response.text()
  expect((await recordedContent(response)).answer).toMatch(/^Streamed to \[\w+\]$/)
  const traceId = response.headers.get('x-switchyard-trace-id')
  const ofAnswer = () => collector.spans.find(span => span.traceId === traceId && span.kind === 'client')
  await vi.waitFor(() => expect(ofAnswer()).toBeDefined(), WAIT_OPTIONS)
  const attributes = ofAnswer()?.attributes ?? {}
  expect(JSON.parse(String(attributes['gen_ai.output.messages']))).toEqual([
    { role: 'assistant', parts: [{ type: 'text', content: expect.stringMatching(/^Streamed to \[\w+\]$/) }] },
  ])
  expect(JSON.parse(String(attributes['gen_ai.input.messages']))).toHaveLength(2)
  expect(JSON.stringify(attributes)).not.toContain('@example')
})

const GITHUB_TOKEN = ['ghp', `_${'A1b2'.repeat(9)}`].join('')
const halves = [GITHUB_TOKEN.slice(0, 9), GITHUB_TOKEN.slice(9)] as const
const choices = (...deltas: object[]) => ({
  ...chunk({}),
  choices: deltas.map((delta, index) => ({ index, delta, finish_reason: null })),
})
const call = (index: number, fields: object) => ({ index, ...fields })
const mixed: Record<string, { fields: object; events: object[]; shown: string }> = {
  'two choices': {
    fields: { n: 2 },
    events: [
      choices({ content: `use ${halves[0]}` }, { content: 'Sure, ' }),
      choices({ content: halves[1] }, { content: 'here.' }),
      { ...chunk({}), choices: [0, 1].map(index => ({ index, delta: {}, finish_reason: 'stop' })) },
    ],
    shown: 'use [CREDENTIAL]\nSure, here.',
  },
  'two calls in turns': {
    fields: { tools: [{ type: 'function', function: { name: 'save' } }] },
    events: [
      chunk({ tool_calls: [call(0, { id: 'a', type: 'function', function: { name: 'save', arguments: '' } })] }),
      chunk({ tool_calls: [call(1, { id: 'b', type: 'function', function: { name: 'save', arguments: '' } })] }),
      chunk({ tool_calls: [call(0, { function: { arguments: `{"text":"a\\n${halves[0]}` } })] }),
      chunk({ tool_calls: [call(1, { function: { arguments: '{"text":' } })] }),
      chunk({ tool_calls: [call(0, { function: { arguments: `${halves[1]}"}` } })] }),
      chunk({ tool_calls: [call(1, { function: { arguments: '"b"}' } })] }),
      chunk({}, 'tool_calls'),
    ],
    shown: 'save\nsave\n{"text":"a\\n[CREDENTIAL]"}\n{"text":"b"}',
  },
  'reasoning that ends in a letter': {
    fields: {},
    events: [
      chunk({ reasoning_content: 'I answer' }),
      chunk({ content: halves[0] }),
      chunk({ content: halves[1] }),
      chunk({}, 'stop'),
    ],
    shown: 'I answer\n[CREDENTIAL]',
  },
}

test.each(Object.entries(mixed))('a stream with %s keeps no credential', async (_, { fields, events, shown }) => {
  upstream.respondWith(sse([...events, usageChunk(usageOf(20, 20)), '[DONE]']))
  const response = await gateway.chat(manager, { ...ask, ...fields, stream: true })
  expect(await response.text()).not.toContain('"error"')
  expect((await recordedContent(response)).answer).toBe(shown)
})

test('a whole answer with two choices and a call keeps no credential', async () => {
  const called = { id: 'a', type: 'function', function: { name: 'save', arguments: GITHUB_TOKEN } }
  upstream.respondWith((_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' })
    const message = (fields: object) => ({ role: 'assistant', content: GITHUB_TOKEN, ...fields })
    const made = [message({}), message({ tool_calls: [called] })]
    response.end(
      JSON.stringify({
        ...completion(),
        choices: made.map((message, index) => ({ index, message, finish_reason: 'stop' })),
      }),
    )
  })
  const response = await gateway.chat(manager, { ...ask, n: 2 })
  const recorded = await recordedContent(response)
  expect(recorded.answer).toBe('[CREDENTIAL]\n[CREDENTIAL]\nsave\n[CREDENTIAL]')
})

const dialects = ['chat', 'responses', 'messages', 'gemini'] as const
test.each(dialects.flatMap(name => [true, false].map(stream => [name, stream] as const)))(
  '%s (stream: %s): prompt and answer keep no credential',
  async (name, stream) => {
    upstream.respondWith(answer({ pieces: ['Take ', ...halves, ' now'] }))
    const { path, headers, body } = clientWires[name].request({
      ...{ model: 'test-model', key: manager.key, maxTokens: 100, stream },
      text: `${'a '.repeat(1_000)}${GITHUB_TOKEN} to ada@example.com`,
    })
    const response = await fetch(`${gateway.url}${path}`, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    expect(response.status).toBe(200)
    await response.text()
    const recorded = await recordedContent(response)
    expect(recorded.answer).toBe('Take [CREDENTIAL] now')
    expect(recorded.messages.at(-1)?.text).toMatch(/a \[CREDENTIAL\] to \[EMAIL\]$/)
  },
)

test('a credential at the place where a prompt and an answer are cut is recognised', async () => {
  const long = `${'ab '.repeat(21_840)}${GITHUB_TOKEN} rest`
  upstream.respondWith(answer({ pieces: [long], usage: usageOf(30_000, 30_000) }))
  const response = await gateway.chat(manager, {
    ...ask,
    messages: [{ role: 'user', content: long }],
    max_tokens: 60_000,
  })
  expect(response.status).toBe(200)
  const recorded = await recordedContent(response)
  expect(recorded.is_cut).toBe(true)
  for (const text of [recorded.messages[0]?.text, recorded.answer]) expect(text).toMatch(/ab \[CREDENTIAL\]$/)
})

test('nothing is recorded of other keys, and of requests with privacy_mode', async () => {
  const other = await gateway.anotherKey(manager)
  const before = await countOfRows()
  const plain = await gateway.chat(other, ask)
  const hidden = await gateway.chat(manager, { ...ask, privacy_mode: true })
  const recorded = await gateway.chat(manager, ask)
  await recordedContent(recorded)
  expect(await countOfRows()).toBe(before + 1)
  for (const response of [plain, hidden]) expect((await contentOf(manager, response)).status).toBe(404)
  expect((await contentOf(other, recorded)).status).toBe(403)
  const stranger = await gateway.customer({ key: { scopes: ['manage'] } })
  expect((await contentOf(stranger, recorded)).status).toBe(404)
})

test('a key is switched on and off, and shows it', async () => {
  const send = (path: string, method: string, body: object) =>
    fetch(`${gateway.url}${path}`, {
      method,
      headers: { authorization: `Bearer ${manager.key}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
  const made = (await (await send('/v1/keys', 'POST', { name: 'quiet' })).json()) as {
    id: string
    record_content: boolean
  }
  expect(made.record_content).toBe(false)
  const changed = await send(`/v1/keys/${made.id}`, 'PATCH', { record_content: true })
  expect(await changed.json()).toMatchObject({ record_content: true })
  const listed = (await (await gateway.get(manager, '/v1/keys')).json()) as {
    data: { id: string; record_content: boolean }[]
  }
  expect(listed.data.find(({ id }) => id === made.id)?.record_content).toBe(true)
  expect(await (await gateway.get(manager, '/v1/key')).json()).toMatchObject({ record_content: true })
  const { rows } = await gateway.database.pool.query(
    "SELECT detail FROM audit_entry WHERE action = 'key.changed' AND subject = $1",
    [made.id],
  )
  expect(rows).toMatchObject([{ detail: { before: { record_content: false }, after: { record_content: true } } }])
})

/** Who may read what was recorded, through each door. */
const keyDoors: readonly [string, (id: string) => Promise<Response>, number][] = [
  ['a key that manages', id => gateway.get(manager, `/v1/usage/requests/${id}/content`), 200],
  ['another key', async id => gateway.get(await gateway.anotherKey(manager), `/v1/usage/requests/${id}/content`), 403],
]
const memberDoors = (['owner', 'developer', 'billing', 'viewer'] as const).map(
  role =>
    [
      `a member with the role ${role}`,
      async (id: string) => {
        const { browser } = await signedInMember(gateway, manager.customerId, role)
        return browser.get(`customers/${manager.customerId}/usage/requests/${id}/content`)
      },
      role === 'owner' || role === 'developer' ? 200 : 403,
    ] as const,
)
const operatorDoors = (['operator', 'auditor'] as const).flatMap(role =>
  [`operator/requests/ID/content`, `customers/CUSTOMER/usage/requests/ID/content`].map(
    path =>
      [
        `${role}: ${path}`,
        async (id: string) => {
          const { browser, personId } = await signedInOperator(gateway)
          await gateway.database.pool.query('UPDATE person SET installation_role = $1 WHERE person_id = $2', [
            role,
            personId,
          ])
          return browser.get(path.replace('ID', id).replace('CUSTOMER', manager.customerId))
        },
        200,
      ] as const,
  ),
)

test.each([...keyDoors, ...memberDoors, ...operatorDoors])(
  '%s: read only if allowed, and noted',
  async (_, read, status) => {
    const content = await recordedContent(await gateway.chat(manager, ask))
    const views = async () => {
      const { rows } = await gateway.database.pool.query<{ by: string | null }>(
        `SELECT coalesce(person_id::text, detail ->> 'by_key_id') AS by FROM audit_entry
        WHERE action = 'request.content_viewed' AND subject = $1 AND customer_id = $2 AND address IS NOT NULL`,
        [content.id, manager.customerId],
      )
      return rows
    }
    const before = (await views()).length
    const answered = await read(content.id)
    expect(answered.status).toBe(status)
    const after = await views()
    expect(after).toHaveLength(before + (status === 200 ? 1 : 0))
    for (const { by } of after) expect(by).toMatch(UUID)
  },
)

test('no report is open to members whose role is weaker than the scope that keys need', () => {
  const mounted = forSession([
    usageContent({ view: unused, addressOf: unused }),
    ...alertEndpoints({ alerts: {} as never, addressOf: unused, bodyLimitBytes: 0 }),
    keysList({ keys: {} as never, readKeyUses: unused }),
  ])
  expect(mounted.length).toBeGreaterThan(4)
  for (const { path, right } of mounted) expect(rolesWith(right!), path).toEqual(['owner', 'developer'])
})

test('content that no master key opens is not found', async () => {
  const { id } = await recordedContent(await gateway.chat(manager, ask))
  await gateway.database.pool.query("UPDATE request_content SET sealed = '\\x0200' WHERE request_id = $1", [id])
  const response = await gateway.get(manager, `/v1/usage/requests/${id}/content`)
  expect(response.status).toBe(404)
  expect(await response.json()).toMatchObject({ error: { code: 'request_not_found' } })
})

test.each([false, true])('a call without a function is recorded, and fails nothing (stream: %s)', async stream => {
  const messages = [
    { role: 'user', content: 'Hi' },
    { role: 'assistant', content: null, tool_calls: [{ id: 'c', type: 'function', function: null }] },
    { role: 'tool', tool_call_id: 'c', content: 'done' },
  ]
  upstream.respondWith(answer({ text: 'Fine' }))
  const response = await gateway.chat(manager, { ...ask, messages, stream })
  expect(response.status).toBe(200)
  expect(await response.text()).not.toContain('error')
  expect((await recordedContent(response)).messages[1]?.text).toBe('[tool call]')
})

test('days are dropped, and what is recorded of a customer is deleted with it', async () => {
  await recordedContent(await gateway.chat(manager, ask))
  const partitions = async () => {
    const { rows } = await gateway.database.pool.query<{ name: string }>(
      "SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = 'request_content'::regclass ORDER BY 1",
    )
    return rows.map(({ name }) => name)
  }
  const today = `request_content_${new Date().toISOString().slice(0, 10).replaceAll('-', '_')}`
  expect(await partitions()).toContain(today)
  await deleteContents(gateway.database.pool, manager.customerId)
  expect(await countOfRows()).toBe(0)
  await recordedContent(await gateway.chat(manager, ask))
  const later = Date.now() + 40 * 86_400_000
  expect(await dropContentDays(gateway.database.pool, later, 30)).toContain(today)
  expect(await countOfRows()).toBe(0)
  expect(await partitions()).toEqual([])
  await addContentDays(gateway.database.pool, Date.now())
})

test('without the operator nothing is recorded, and no key can ask for it', async () => {
  const app = await startTestApp({ offers: [testOffer(upstream.baseUrl)] })
  const customer = await app.customer({ key: { scopes: ['manage'], recordsContent: true } })
  const headers = { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json' }
  const refused = await fetch(`${app.url}/v1/keys`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ name: 'k', record_content: true }),
  })
  expect(refused.status).toBe(400)
  expect(await refused.json()).toMatchObject({ error: { param: 'record_content' } })
  await app.chat(customer, ask)
  await app.stop()
  const { rows } = await app.database.pool.query('SELECT FROM request_content')
  expect(rows).toEqual([])
  await app.close()
})
