import { randomBytes } from 'node:crypto'
import { createServer } from 'node:net'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { bumpControlVersion } from '../../src/base/db/control-version.ts'
import { startTestApp, type TestApp, type TestCustomer } from '../harness/app.ts'
import { status } from '../harness/scripted-upstream.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { useTestDatabase, useUpstream } from '../harness/use-test-app.ts'

// Gateways that share only the database, with three hosters of one model on real sockets.

const database = useTestDatabase()
const upstreams = [useUpstream(), useUpstream(), useUpstream()]
const masterKey = randomBytes(32)
const start = (mayBeCutOff = false) =>
  startTestApp({
    database,
    masterKey,
    yaml: 'settlement: journal\nhosters: { allow_private_urls: true }\ndemo: { enabled: false }\ndetect: { enabled: false }',
    timeouts: { learnedIntervalMs: 20 },
    mayBeCutOff,
  })

let first: TestApp
let second: TestApp
let customer: TestCustomer
let hosterIds: string[]

beforeAll(async () => {
  first = await start()
  second = await start(true)
  hosterIds = []
  for (const [index, { baseUrl }] of upstreams.entries()) {
    const price = { inputPicoPerToken: BigInt(1_000_000 + index), outputPicoPerToken: 2_000_000n }
    hosterIds.push(await first.hoster({ baseUrl, models: [{ price }] }))
  }
  await second.app.noticeChanges()
  customer = await first.customer()
})
afterAll(async () => {
  await second.close()
  await first.close()
})

const body = { model: 'test-model', max_tokens: 20, messages: [{ role: 'user', content: 'Hello' }], tier: 'cheapest' }

async function served(app: TestApp, more: object = {}): Promise<{ status: number; hoster: string | null }> {
  const response = await app.chat(customer, { ...body, ...more })
  await response.arrayBuffer()
  return { status: response.status, hoster: response.headers.get('x-switchyard-hoster') }
}

/** The states of the offers at a gateway, in the order of the prices. */
async function candidates(app: TestApp) {
  const response = await app.chat(customer, { ...body, dry_run: true })
  const quote = (await response.json()) as {
    candidates: { hoster_id: string; state: string; predicted_ms: number | null }[]
    excluded: { hoster_id: string; reason: string }[]
  }
  return quote
}

describe('a hoster that fails at one gateway', () => {
  test('is ejected at the other, which has sent it nothing, and users see no failure', async () => {
    const refusing = await portWithoutServer()
    await database.pool.query('UPDATE hoster_endpoint SET base_url = $1 WHERE hoster_id = $2', [
      `http://127.0.0.1:${refusing}/v1`,
      hosterIds[0],
    ])
    await bumpControlVersion(database.pool, 'supply')
    await first.app.noticeChanges()
    await second.app.noticeChanges()
    for (let n = 0; n < 3; n++) expect(await served(first)).toEqual({ status: 200, hoster: hosterIds[1] })
    await vi.waitFor(async () => {
      const { excluded } = await candidates(second)
      expect(excluded).toMatchObject([{ hoster_id: hosterIds[0], reason: 'endpoint_ejected' }])
    }, WAIT_OPTIONS)
    expect(await served(second)).toEqual({ status: 200, hoster: hosterIds[1] })
    const rows = await second.settled(customer, 4)
    // The second gateway made one attempt only.
    expect(rows.at(-1)!.attempts).toHaveLength(1)
  })

  test('is known to a gateway that starts later, with the latency of the others', async () => {
    for (let n = 0; n < 5; n++) await served(first)
    await vi.waitFor(async () => {
      const { rows } = await database.pool.query(
        "SELECT FROM learned_offer WHERE (learned->'latency'->'whole'->>'n')::float >= 4",
      )
      expect(rows.length).toBeGreaterThan(0)
    }, WAIT_OPTIONS)
    const later = await start()
    try {
      const { candidates: ranked, excluded } = await candidates(later)
      expect(excluded).toMatchObject([{ hoster_id: hosterIds[0], reason: 'endpoint_ejected' }])
      expect(ranked.find(({ hoster_id }) => hoster_id === hosterIds[1])!.predicted_ms).not.toBe(null)
      expect(ranked.find(({ hoster_id }) => hoster_id === hosterIds[2])!.predicted_ms).toBe(null)
    } finally {
      await later.stop()
    }
  })
})

test('requests go on while PostgreSQL cannot be reached, and sharing resumes', async () => {
  await served(second)
  const reconnect = second.cutOff()
  try {
    upstreams[1]!.respondWith(status(500, {}), status(500, {}))
    for (let n = 0; n < 3; n++) expect((await served(second)).status).toBe(200)
  } finally {
    reconnect()
  }
  await vi.waitFor(async () => {
    const { rows } = await database.pool.query("SELECT FROM learned_offer WHERE (learned->>'failures')::int = 2")
    expect(rows.length).toBeGreaterThan(0)
  }, WAIT_OPTIONS)
})

/** Returns a port that refuses connections. */
async function portWithoutServer(): Promise<number> {
  const server = createServer()
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  await new Promise(resolve => server.close(resolve))
  return port
}
