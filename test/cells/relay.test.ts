import { once } from 'node:events'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'
import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'
import { expect, test, vi } from 'vitest'
import { createPool, type Pool } from '../../src/base/db/pool.ts'
import { linkCell } from '../../src/operator/cells/link-cell.ts'
import type { TestCustomer } from '../harness/app.ts'
import { openResponses } from '../harness/response-socket.ts'
import { answer, neverEnding } from '../harness/scripted-upstream.ts'
import { useResource } from '../harness/use-resource.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'
import { type Cell, startCellWorld } from './cell-world.ts'

const world = useResource(startCellWorld, world => world.close())
const body = { model: 'test-model', messages: [{ role: 'user', content: 'Hello' }] }

/** A customer of cell a whose key cell b knows. */
async function customerOfA(options: Parameters<typeof world.a.app.customer>[0] = {}): Promise<TestCustomer> {
  const customer = await world.a.app.customer(options)
  await untilKnown(world.b, customer.key)
  return customer
}

async function untilKnown({ database }: Cell, key: string): Promise<void> {
  await vi.waitFor(async () => {
    const { rows } = await database.pool.query('SELECT FROM cell_key WHERE key_hash = sha256($1::text::bytea)', [key])
    expect(rows).toHaveLength(1)
  })
}

test('a key of one cell works through the front of the other, and its own cell charges it', async () => {
  const customer = await customerOfA()
  world.a.upstream.respondWith(answer({ text: 'from a' }))
  const response = await world.b.app.chat(customer, body)
  expect(response.status).toBe(200)
  expect(await response.json()).toMatchObject({ choices: [{ message: { content: 'from a' } }] })
  expect(response.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/)
  const [row] = await world.a.app.settled(customer, 1)
  expect(row).toMatchObject({ endpoint_id: 'server-of-a', success: true })
  expect(world.b.upstream.requests).toEqual([])
  const usage = await world.b.app.get(customer, '/v1/usage')
  expect(await usage.json()).toMatchObject({ usage_30d: { total_requests: 1 } })
  const { rows } = await world.b.database.pool.query('SELECT FROM usage_event')
  expect(rows).toEqual([])
})

test('streams of all dialects, keys and refusals are passed on as they are', async () => {
  const customer = await customerOfA({ key: { scopes: ['manage'] } })
  const openai = new OpenAI({ apiKey: customer.key, baseURL: `${world.b.app.url}/v1`, maxRetries: 0 })
  const pieces = []
  for await (const piece of await openai.chat.completions.create({
    model: 'test-model',
    messages: [{ role: 'user', content: 'Hello' }],
    stream: true,
  }))
    pieces.push(piece)
  expect(pieces.length).toBeGreaterThan(1)
  const anthropic = new Anthropic({ apiKey: customer.key, baseURL: world.b.app.url, maxRetries: 0 })
  const message = await anthropic.messages
    .stream({ model: 'test-model', max_tokens: 50, messages: [{ role: 'user', content: 'Hello' }] })
    .finalMessage()
  expect(message.content).toHaveLength(1)
  const gemini = await fetch(
    `${world.b.app.url}/v1beta/models/test-model:streamGenerateContent?alt=sse&key=${customer.key}`,
    {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ contents: [{ role: 'user', parts: [{ text: 'Hello' }] }] }),
    },
  )
  expect({ status: gemini.status, isStream: (await gemini.text()).startsWith('data: {') }).toEqual({
    status: 200,
    isStream: true,
  })
  expect(await (await world.b.app.get(customer, '/v1/models')).text()).toContain('test-model')
  const made = await fetch(`${world.b.app.url}/v1/keys`, {
    method: 'POST',
    headers: { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'made through b' }),
  })
  expect(made.status).toBe(200)
  const second = (await made.json()) as { key: string }
  await untilKnown(world.b, second.key)
  const refused = await world.b.app.chat({ ...customer, key: second.key }, { ...body, model: 'unknown' })
  expect(refused.status).toBe(404)
  expect(await refused.json()).toMatchObject({ error: { code: 'model_not_found' } })
  expect(await world.a.app.settled(customer, 3)).toHaveLength(3)
})

test('a WebSocket of /v1/responses is passed on', async () => {
  const customer = await customerOfA()
  const socket = await openResponses(world.b.app, customer)
  socket.send({ type: 'response.create', model: 'test-model', input: 'Hello' })
  expect((await socket.untilEnd()).at(-1)).toMatchObject({ type: 'response.completed' })
  socket.socket.close()
  expect(await socket.closed).toBe(1005)
  expect(await world.a.app.settled(customer, 1)).toHaveLength(1)
})

test('a client that leaves ends its request in the other cell', async () => {
  const customer = await customerOfA()
  world.a.upstream.respondWith(neverEnding())
  const leaving = new AbortController()
  const response = await world.b.app.chat(customer, { ...body, stream: true }, { signal: leaving.signal })
  await response.body!.getReader().read()
  leaving.abort()
  expect(await world.a.app.settled(customer, 1)).toMatchObject([{ outcome: 'client_gone' }])
})

test('the other cell learns the address of the client, and believes no client that names another', async () => {
  const customer = await customerOfA({ key: { scopes: ['manage'] } })
  const makeKey = async (url: string, headers: Record<string, string>) => {
    const request = httpRequest(`${url}/v1/keys`, {
      method: 'POST',
      localAddress: '127.0.0.9',
      headers: { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json', ...headers },
    })
    request.end(JSON.stringify({ name: 'made' }))
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    expect({ status: response.statusCode, body: await text(response) }).toMatchObject({ status: 200 })
  }
  await makeKey(world.b.app.url, {})
  const forged = { 'x-forwarded-for': '203.0.113.5', 'switchyard-cell': '1 a-guessed-secret-of-thirty-two-letters' }
  await makeKey(world.a.app.url, forged)
  await makeKey(world.b.app.url, forged)
  const { rows } = await world.a.database.pool.query<{ address: string }>(
    "SELECT address FROM audit_entry WHERE action = 'key.issued' AND customer_id = $1",
    [customer.customerId],
  )
  expect(rows.map(({ address }) => address)).toEqual(['127.0.0.9', '127.0.0.9', '127.0.0.9'])
})

test('keys that are revoked, unknown or in a circle are refused', async () => {
  const customer = await customerOfA()
  await world.a.database.pool.query('UPDATE api_key SET revoked_at = now() WHERE customer_id = $1', [
    customer.customerId,
  ])
  await world.a.app.app.noticeChanges()
  const revoked = await world.b.app.chat(customer, body)
  expect(revoked.status).toBe(401)
  const stranger = await world.a.app.customer()
  for (const [{ database }, cell] of [
    [world.a, 'b'],
    [world.b, 'a'],
  ] as const) {
    await database.pool.query('DELETE FROM cell_key WHERE key_hash = sha256($1::text::bytea)', [stranger.key])
    await database.pool.query('INSERT INTO cell_key (key_hash, cell) VALUES (sha256($1::text::bytea), $2)', [
      stranger.key,
      cell,
    ])
  }
  const circle = await world.b.app.chat(stranger, body)
  expect(circle.status).toBe(503)
  expect(await circle.json()).toMatchObject({ error: { code: 'database_unavailable' } })
})

test('while the customer moves or its cell is away, requests get 503 and Retry-After', async () => {
  const customer = await customerOfA()
  const moving = await customerOfA()
  await world.a.database.pool.query('UPDATE cell_key SET is_moving = true WHERE key_hash = sha256($1::text::bytea)', [
    moving.key,
  ])
  for (const cell of [world.a, world.b]) {
    const response = await cell.app.chat(moving, body)
    expect({ status: response.status, again: response.headers.get('retry-after') }).toEqual({ status: 503, again: '2' })
    expect(await response.text()).toContain('is moving to another cell')
  }
  await world.a.front.close()
  const response = await world.b.app.chat(customer, body)
  expect({ status: response.status, again: response.headers.get('retry-after') }).toEqual({ status: 503, again: '2' })
  expect((await world.a.app.chat(customer, body)).status).toBe(200)
})

const plain = useTestDatabase()

test('a database without logical replication is not linked, and a cell keeps its name', async () => {
  await expect(linkCell(plain.pool, 'c', [])).rejects.toThrow(/wal_level/)
  await expect(linkCell(world.a.database.pool, 'c', [])).rejects.toThrow(/this database is the cell a, not c/)
  const again = await world.a.cli(['cell', 'link', '--json'])
  expect(JSON.parse(again.stdout)).toEqual({ cell: 'a', is_new: false, added: [], waiting: [] })
  for (const [cell, links] of [
    [world.a, [[], ['b']]],
    [world.b, [['a']]],
  ] as const) {
    const { rows } = await cell.database.pool.query<{ peers: string[] }>(
      "SELECT detail->'peers' AS peers FROM audit_entry WHERE action = 'cell.linked' ORDER BY entry_id",
    )
    expect(rows.map(({ peers }) => peers)).toEqual(links)
  }
})

test('the first cell that was linked follows the others, and a subscription that follows nothing is made again', async () => {
  const customer = await world.b.app.customer()
  await untilKnown(world.a, customer.key)
  expect((await world.a.app.chat(customer, body)).status).toBe(200)
  await world.b.app.settled(customer, 1)

  // Earlier versions could subscribe before the peer had a publication.
  const [a, b] = [world.a.database.pool, world.b.database.pool]
  await a.query('DROP SUBSCRIPTION switchyard_b_to_a')
  await b.query('ALTER PUBLICATION switchyard_cell RENAME TO hidden')
  const waiting = await world.a.cli(['cell', 'link', '--json'])
  expect(JSON.parse(waiting.stdout)).toEqual({ cell: 'a', is_new: false, added: [], waiting: ['b'] })
  expect(waiting.stderr).toContain('publish no keys yet: b.')
  await a.query(`CREATE SUBSCRIPTION switchyard_b_to_a CONNECTION '${world.b.databaseUrl}' PUBLICATION switchyard_cell`)
  await world.b.app.customer()
  await b.query('ALTER PUBLICATION hidden RENAME TO switchyard_cell')
  const late = await world.b.app.customer()
  const linked = await world.a.cli(['cell', 'link', '--json'])
  expect(JSON.parse(linked.stdout)).toMatchObject({ added: ['b'], waiting: [] })
  await untilKnown(world.a, customer.key)
  await untilKnown(world.a, late.key)
})

test('the database of another cell under the name of a peer is refused, and a peer that is followed may be down', async () => {
  const { database, databaseUrl } = world.b
  const peers = (name: string, pool: Pool) => [{ name, databaseUrl, pool }]
  await expect(linkCell(world.a.database.pool, 'a', peers('c', database.pool))).rejects.toThrow(
    'The database_url of c leads to the cell b.',
  )
  const down = createPool({ host: '127.0.0.1', port: 1 } as never, { max: 1, applicationName: 'down' })
  expect(await linkCell(world.a.database.pool, 'a', peers('b', down))).toEqual({ isNew: false, added: [], waiting: [] })
  await expect(linkCell(world.a.database.pool, 'a', peers('d', down))).rejects.toThrow(
    /^The database of d cannot be read: /,
  )
  await down.end()
})
