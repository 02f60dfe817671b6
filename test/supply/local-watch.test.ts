import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Offer } from '../../src/base/domain/offer.ts'
import { detectLocal } from '../../src/market/supply/detection/detect-local.ts'
import { LocalWatch } from '../../src/market/supply/detection/local-watch.ts'

const price = { inputPicoPerToken: 1n, outputPicoPerToken: 2n }

/** What the server answers now, and what it was asked. */
let answers: RequestListener
let asked: string[]
let server: Server
let options: { price: typeof price; ownPorts: number[]; timeoutMs: number; servers: { name: string; port: number }[] }
let waitsMs: number[]
let nextLook: () => unknown
let changes: string[][]
let logged: string[]

beforeEach(async () => {
  answers = listOf()
  asked = []
  waitsMs = []
  changes = []
  logged = []
  server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`)
    answers(request, response)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  options = { price, ownPorts: [], timeoutMs: 10_000, servers: [{ name: 'ollama', port }] }
})
afterEach(async () => {
  server.closeAllConnections()
  await new Promise(resolve => server.close(resolve))
})

const json = (body: unknown, status = 200): RequestListener => {
  return (_, response) => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  }
}
const listOf = (...ids: string[]) => json({ data: ids.map(id => ({ id, max_model_len: 8_192 })) })

async function startWatch(random = () => 0.5): Promise<LocalWatch> {
  const watch = new LocalWatch({
    ...options,
    found: await detectLocal(options),
    intervalMs: 30_000,
    onChange: offers => changes.push(offers.map(({ modelId }) => modelId)),
    scheduler: {
      after(ms, work) {
        waitsMs.push(ms)
        nextLook = work
        return () => {
          nextLook = () => {}
        }
      },
    },
    random,
    log: { info: (facts: object, message?: string) => logged.push(`${JSON.stringify(facts)} ${message}`) },
  })
  watch.start()
  return watch
}

/** Looks once. Returns the offered models if they have changed. */
async function look(listener: RequestListener): Promise<string[] | undefined> {
  answers = listener
  const before = changes.length
  await nextLook()
  return changes.length > before ? changes.at(-1) : undefined
}

const nothing: RequestListener = request => request.socket.destroy()

test('a server that starts after the gateway is found, and so are models that it gets later', async () => {
  answers = nothing
  await startWatch()
  expect(await look(nothing)).toBeUndefined()
  expect(await look(listOf('llama3.2:3b'))).toEqual(['llama3.2:3b'])
  expect(await look(listOf('llama3.2:3b'))).toBeUndefined()
  expect(await look(listOf('llama3.2:3b', 'qwen3:8b'))).toEqual(['llama3.2:3b', 'qwen3:8b'])
  expect(logged).toEqual([
    '{"server":"ollama","models":["llama3.2:3b"]} a local server has new models',
    '{"server":"ollama","models":["qwen3:8b"]} a local server has new models',
  ])
})

test('a model that is missing twice in a row is no longer offered, until it is listed again', async () => {
  answers = listOf('a', 'b')
  await startWatch()
  expect(await look(listOf('b'))).toBeUndefined()
  expect(await look(listOf('a', 'b'))).toBeUndefined()
  expect(await look(listOf('b'))).toBeUndefined()
  // A look that fails in between counts as none.
  expect(await look(nothing)).toBeUndefined()
  expect(await look(listOf('b'))).toEqual(['b'])
  expect(await look(listOf('a', 'b'))).toEqual(['b', 'a'])
  expect(await look(listOf())).toBeUndefined()
  expect(await look(listOf())).toEqual([])
})

test.each<[name: string, listener: RequestListener]>([
  ['no answer', nothing],
  ['an error', json({ error: 'loading' }, 503)],
  ['a refused key', json({ error: 'no key' }, 401)],
  ['no list', json({ models: [] })],
  ['no JSON', (_, response) => response.end('<html>')],
])('%s changes nothing, however often', async (_name, listener) => {
  answers = listOf('a')
  await startWatch()
  for (let i = 0; i < 5; i++) expect(await look(listener)).toBeUndefined()
  expect(changes).toEqual([])
})

test('a server that does not answer in time changes nothing', async () => {
  answers = listOf('a')
  options.timeoutMs = 1_000
  await startWatch()
  expect(await look(() => {})).toBeUndefined()
})

test('a new context in the list is offered, and a model is asked for its context once', async () => {
  answers = json({ data: [{ id: 'a' }] })
  await startWatch()
  const askedAtStart = asked.length
  expect(askedAtStart).toBeGreaterThan(1)
  await look(json({ data: [{ id: 'a' }] }))
  expect(asked.slice(askedAtStart)).toEqual(['GET /v1/models'])
  await look(json({ data: [{ id: 'a' }, { id: 'b' }] }))
  expect(asked.filter(line => line.includes('model=a'))).toHaveLength(1)
  expect(asked.filter(line => line.includes('model=b'))).toHaveLength(1)

  let offers: readonly Offer[] = []
  const watch = new LocalWatch({
    ...options,
    found: await detectLocal(options),
    intervalMs: 1,
    onChange: changed => {
      offers = changed
    },
    scheduler: { after: () => () => {} },
    random: () => 0.5,
    log: { info() {} },
  })
  answers = json({ data: [{ id: 'a', max_model_len: 4_096 }] })
  await watch.look()
  expect(offers.map(({ modelId, contextTokens }) => [modelId, contextTokens])).toContainEqual(['a', 4_096])
})

test('a port where something else answers is asked less and less often', async () => {
  answers = json({ error: 'not found' }, 404)
  await startWatch()
  const looks: number[] = []
  for (let n = 1; n <= 200; n++) {
    const before = asked.length
    await look(json({ error: 'not found' }, 404))
    if (asked.length > before) looks.push(n)
  }
  expect(looks).toEqual([1, 4, 9, 18, 35, 68, 133, 198])
  // A model server that takes its place is found then, and asked at each look from there on.
  for (let n = 0; n < 65 && changes.length === 0; n++) await look(listOf('a'))
  expect(changes).toEqual([['a']])
  const before = asked.length
  await look(listOf('a'))
  expect(asked.length).toBe(before + 1)
})

test('looks are a fifth early to a fifth late, one at a time, and end with the watch', async () => {
  const randoms = [0, 0.5, 0.999]
  const watch = await startWatch(() => randoms.shift()!)
  await look(listOf())
  await look(listOf())
  expect(waitsMs.map(Math.round)).toEqual([24_000, 30_000, 35_988])
  // The next look is scheduled when this one has ended.
  const gate = Promise.withResolvers<void>()
  answers = async (request, response) => {
    await gate.promise
    listOf('late')(request, response)
  }
  const looking = nextLook()
  watch.stop()
  gate.resolve()
  await looking
  expect(changes).toEqual([])
  expect(waitsMs).toHaveLength(3)
})
