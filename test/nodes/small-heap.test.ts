import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { databaseUrl, sourceProgram } from '../cli/run-cli.ts'
import { createTestDatabase } from '../harness/database.ts'
import { type ApiErrorBody, readError } from '../harness/event-stream.ts'
import { completion } from '../harness/scripted-upstream.ts'
import { eventually, startGatewayProcess } from './gateway-process.ts'

const MIB = 1_048_576
const WHOLE_ANSWERS = 60

/**
 * Sends one event of 16 MiB of empty lines as a stream. As a whole answer, sends 32 bytes for each token of
 * `max_tokens` and never ends. Requests for the model `honest` get an answer.
 */
async function startHostileServer() {
  const unfinished = new Set<ServerResponse>()
  let ended = 0
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const piece of request.setEncoding('utf8')) body += piece
    const { model, stream, max_tokens: maxTokens } = JSON.parse(body)
    response.on('error', () => {})
    if (model === 'honest') return response.end(JSON.stringify(completion()))
    response.once('close', () => {
      unfinished.delete(response)
      ended++
    })
    response.writeHead(200, { 'content-type': stream ? 'text/event-stream' : 'application/json' })
    if (!stream) response.write('{"choices":[{"index":0,"message":{"role":"assistant","content":"')
    const piece = Buffer.alloc(64 * 1024, stream ? 'data:\n' : 'x')
    const bytes = stream ? 16 * MIB : maxTokens * 32
    for (let sent = 0; sent < bytes && !response.destroyed; sent += piece.length) {
      await new Promise<unknown>(resolve => response.write(piece, resolve))
    }
    if (!response.destroyed) unfinished.add(response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    /** Hostile requests of which everything was sent, or that the gateway has ended. */
    get settled() {
      return unfinished.size + ended
    },
    giveUp() {
      for (const response of unfinished) response.destroy()
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

test('a node with a small heap survives hostile streams and sixty unfinished answers, and refuses others meanwhile', async () => {
  await using hostile = await startHostileServer()
  const directory = await mkdtemp(join(tmpdir(), 'switchyard-small-heap-'))
  const database = await createTestDatabase()
  const model = (id: string) => `
      - { id: ${id}, context_tokens: 1000000, max_output_tokens: 400000, price_per_million_usd: { input: 0, output: 0 } }`
  await writeFile(
    join(directory, 'switchyard.yaml'),
    `demo: { enabled: false }
detect: { enabled: false }
endpoints:
  - name: hostile
    kind: local
    base_url: ${hostile.baseUrl}
    models:${model('hostile')}
  - name: honest
    kind: local
    base_url: ${hostile.baseUrl}
    models:${model('honest')}
account_tiers:
  free: { requests_per_minute: 1000 }
`,
  )
  const [node, ...words] = sourceProgram
  const gateway = await startGatewayProcess({
    directory,
    program: [node!, '--max-old-space-size=160', ...words],
    env: { DATABASE_URL: databaseUrl(database.connection), SWITCHYARD_DATA: directory },
  })
  try {
    const key = /sk-sy-[0-9A-Za-z]{38}/.exec(gateway.output())![0]
    const client = new AbortController()
    const chat = (body: object) =>
      fetch(`${gateway.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ messages: [{ role: 'user', content: 'Hello' }], max_tokens: 400_000, ...body }),
        signal: client.signal,
      })
    expect((await chat({ model: 'honest' })).status).toBe(200)

    const streams = await Promise.all(Array.from({ length: 3 }, () => chat({ model: 'hostile', stream: true })))
    for (const response of streams) expect(await readError(response)).toMatchObject({ status: 500 })

    const before = hostile.settled
    const refusals: ApiErrorBody[] = []
    for (let sent = 0; sent < WHOLE_ANSWERS; sent++) {
      void chat({ model: 'hostile' }).then(
        async response => refusals.push(await readError(response)),
        () => {},
      )
    }
    await eventually(async () => (hostile.settled - before + refusals.length >= WHOLE_ANSWERS ? true : undefined))
    // Some answers wait for their end, and the memory has no room for the others.
    expect(refusals.length).toBeGreaterThan(0)
    expect(refusals.length).toBeLessThan(WHOLE_ANSWERS)
    // A new request is beyond the share of its customer; a running answer gets no more memory.
    const codes = ['too_many_concurrent_requests', 'overloaded']
    for (const { code, message } of refusals) {
      expect(codes).toContain(code)
      expect(message).toContain('memory')
    }
    // Smaller answers fill the rest. Then other requests are refused too.
    for (let isFull = false; !isFull; ) {
      const settled = hostile.settled
      const small = chat({ model: 'hostile', max_tokens: 20_000 }).then(
        response => response.status,
        () => 0,
      )
      const isSettled = eventually(async () => (hostile.settled > settled ? 200 : undefined))
      isFull = (await Promise.race([small, isSettled])) === 429
    }
    expect(await readError(await chat({ model: 'honest' }))).toMatchObject({ status: 429, code: codes[0] })

    hostile.giveUp()
    await eventually(async () => ((await chat({ model: 'honest' })).status === 200 ? true : undefined))
    client.abort()
  } finally {
    await gateway.stop()
    await database.drop()
    await rm(directory, { recursive: true })
  }
})
